"""TRL's GRPO step, measured the way `motley bench grpo` measures Motley's: 4 prompts of about 40
tokens x 4 answers x 64 new tokens, end-of-text ignored, float32, gradient and AdamW included.

  python3 -m venv trl && trl/bin/pip install torch trl transformers datasets
  motley convert smollm2/model.gguf smollm2-hf
  trl/bin/python tools/bench_trl.py smollm2-hf --threads 2
  motley bench grpo --model smollm2/model.gguf

Prints a JSON line per step (the first one warms up) and the median again as the last, with the
keys of `motley bench`.  Needed for nothing but this comparison.
"""

import argparse
import json
import os
import resource
import statistics
import tempfile
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", help="Hugging Face directory")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=3, help="steps measured after the first")
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--num_generations", type=int, default=4)
    parser.add_argument("--new_tokens", type=int, default=64)
    return parser.parse_args()


def prompt(i):
    return (
        f"Question: a farmer has {i + 3} boxes with {2 * i + 5} apples each and gives away {i + 1}"
        " apples. How many apples are left? Think step by step and answer with a number. Answer:"
    )


def main():
    options = arguments()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # read when torch is loaded
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(options.threads)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    model.generation_config.eos_token_id = None  # every answer runs to its full length
    answers = options.prompts * options.num_generations
    lines = []

    class Clock(TrainerCallback):
        def on_step_begin(self, *_, **__):
            self.start = time.perf_counter()

        def on_step_end(self, *_, **__):
            seconds = time.perf_counter() - self.start
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            lines.append(
                {
                    "bench": "grpo",
                    "peer": "trl",
                    "model": options.model,
                    "dtype": "float32",
                    "batch": answers,
                    "threads": options.threads,
                    "seconds": seconds,
                    "tokens_per_s": answers * options.new_tokens / seconds,
                    "peak_rss_bytes": peak,
                }
            )
            print(json.dumps(lines[-1]), flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        config = GRPOConfig(
            output_dir=scratch,
            per_device_train_batch_size=answers,
            num_generations=options.num_generations,
            max_completion_length=options.new_tokens,
            generation_kwargs={"min_new_tokens": options.new_tokens},
            max_steps=options.steps + 1,
            learning_rate=1e-6,
            beta=0.0,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            seed=0,
        )
        rows = [{"prompt": prompt(i)} for i in range(options.prompts * (options.steps + 1))]
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=lambda completions, **_: [float(len(set(c)) % 7) for c in completions],
            args=config,
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            callbacks=[Clock()],
        )
        trainer.train()
    measured = lines[1:]
    middle = statistics.median_low(line["seconds"] for line in measured)
    median = next(line for line in measured if line["seconds"] == middle)
    print(json.dumps({**median, "median": True}))


if __name__ == "__main__":
    main()
