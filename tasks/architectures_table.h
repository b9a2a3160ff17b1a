/* Every architecture that we train, one line each.  No guard: included more than once.
 * MOT_ARCHITECTURE(HF class, model_type, GGUF name, q/k/v biases, RMSNorm on the heads of q and k,
 *                  head_dim when config.json has none (0: hidden / heads),
 *                  GGUF stores the rows of q and k interleaved (ggml's "norm" rotation)) */
MOT_ARCHITECTURE("LlamaForCausalLM", "llama", "llama", 0, 0, 0, 1)
MOT_ARCHITECTURE("Qwen2ForCausalLM", "qwen2", "qwen2", 1, 0, 0, 0)
MOT_ARCHITECTURE("Qwen3ForCausalLM", "qwen3", "qwen3", 0, 1, 128, 0)
