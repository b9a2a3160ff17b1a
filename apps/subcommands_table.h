/* Every subcommand of motley, one line each, in the order of --help: MOT_SUBCOMMAND(name, what it
 * does).  Its file is apps/NAME.c with int mot_app_NAME(int argc, char **argv).  No guard: included
 * more than once. */
MOT_SUBCOMMAND(demo, "fit and lift a small model on two-digit sums, from nothing")
MOT_SUBCOMMAND(grpo, "train a model by GRPO with verifiable rewards")
MOT_SUBCOMMAND(sft, "fine-tune a model on prompts with completions")
MOT_SUBCOMMAND(generate, "print a model's answers to prompts")
MOT_SUBCOMMAND(eval, "measure how many answers of a model are right")
MOT_SUBCOMMAND(logprob, "print log-probs and entropies of given tokens")
MOT_SUBCOMMAND(bench, "measure decoding, training and whole steps beside the GEMM peak")
MOT_SUBCOMMAND(sim, "simulate training, or a task graph, on a machine described in a file")
MOT_SUBCOMMAND(compare, "scheduling policies beside each other and beside a lower bound")
MOT_SUBCOMMAND(bound, "lower bounds and optima of task graphs in a file")
MOT_SUBCOMMAND(convert, "turn a GGUF file or a HF directory into a HF directory")
MOT_SUBCOMMAND(tokenize, "text to token ids, one JSON array a line")
MOT_SUBCOMMAND(devices, "list workers, cores, memory, and measure matrix products")
