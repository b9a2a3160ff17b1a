/* One step of motley grpo on SmolLM2-135M leaves a byte-identical checkpoint under three policies,
 * worker shapes and chunks, and the trainer's log-probs are the sampler's, exactly: peers rows 1,
 * 46. MOTLEY_SMOLLM2 names the GGUF file or HF directory; exit 77 without it.  Needs 4 GB of disk.
 * Run it alone: MOTLEY_SMOLLM2=... ./test_grpo_determinism_smollm2 */
#include "program.h"

struct configuration {
    const char *policy, *arguments;
};
static const struct configuration table[] = {
    {"eager", "--workers 1 --cores_per_worker 1 --chunk 64"},
    {"random", "--workers 2 --cores_per_worker 1 --chunk 4"},
    {"dmda", "--workers 1 --cores_per_worker 2 --chunk 4"},
};

static const char prompts[] = "{\"prompt\": \"What is 4 + 7?\", \"answer\": \"11\"}\n"
                              "{\"prompt\": \"Name a colour.\", \"answer\": \"7\"}\n";

int main(void)
{
    const char *model = getenv("MOTLEY_SMOLLM2");
    if (!model) {
        printf("skipped: MOTLEY_SMOLLM2 is not set\n");
        return 77;
    }
    scratch_begin("test_grpo_determinism_smollm2");
    char *path = scratch_path("prompts.jsonl");
    scratch_write(path, prompts, strlen(prompts));
    free(path);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        setenv("STARPU_SCHED", table[i].policy, 1);
        /* Half of the answers hold an even letter count: a reward that is not constant. */
        program_must(0,
                     "grpo --model %s --train_file @/prompts.jsonl --output_dir @/run-%zu %s "
                     "--reward_funcs format:(?s)(..)* --num_generations 2 "
                     "--per_device_train_batch_size 2 --gradient_accumulation_steps 2 "
                     "--max_completion_length 8 --learning_rate 1e-5 --max_steps 1 --save_steps 1 "
                     "--save_final_model false --quiet",
                     model, i, table[i].arguments);
        char *name = mot_format("@/run-%zu", i);
        char *metrics = mot_format("%s/metrics.jsonl", name);
        char *checkpoint = mot_format("%s/checkpoints/step-1", name);
        json_t *lines = lines_load(metrics);
        const json_t *line = json_array_get(lines, 0);
        check(number_at(line, "sampling/sampling_logp_difference/max") == 0.0,
              "%s: the trainer's log-probs are not the sampler's", table[i].policy);
        printf("%s: gradient norm %.4f\n", table[i].policy, number_at(line, "grad_norm"));
        check(number_at(line, "grad_norm") > 0.0, "no gradient: a weak test");
        json_decref(lines);
        if (i > 0) {
            check(directories_equal("@/run-0/checkpoints/step-1", checkpoint)
                      && metrics_equal("@/run-0/metrics.jsonl", metrics),
                  "%s %s differs", table[i].policy, table[i].arguments);
            name_remove(name);
        }
        free(name);
        free(metrics);
        free(checkpoint);
    }
    return failures > 0;
}
