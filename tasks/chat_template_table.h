/* The chat forms known by recognition, one row each:
 *
 *   MOT_CHAT(name, default_system, thinking, end)
 *
 * default_system: what the model's template puts in front when the messages begin with none; NULL:
 *   nothing.  A Jinja text is recognised as the row whose default it spells.
 * thinking: what of Qwen3's reasoning is rendered, see enum chat_thinking.
 * end: the token that ends a turn.
 *
 * Sources: the chat_template of SmolLM2-135M-Instruct, Qwen1.5-, Qwen2-, Qwen2.5-, Qwen2.5-Math-,
 * Qwen3- and Qwen3-2507-Instruct.  To add one of the ChatML family: a row here and one in
 * tests/test_chat_template.c. */
MOT_CHAT("chatml", NULL, THINKING_NONE, "<|im_end|>")
MOT_CHAT("smollm2", "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
         THINKING_NONE, "<|im_end|>")
MOT_CHAT("qwen1.5", "You are a helpful assistant", THINKING_NONE, "<|im_end|>")
MOT_CHAT("qwen2", "You are a helpful assistant.", THINKING_NONE, "<|im_end|>")
MOT_CHAT("qwen2.5", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
         THINKING_NONE, "<|im_end|>")
MOT_CHAT("qwen2.5-math", "Please reason step by step, and put your final answer within \\boxed{}.",
         THINKING_NONE, "<|im_end|>")
MOT_CHAT("qwen3", NULL, THINKING_KEPT, "<|im_end|>")
MOT_CHAT("qwen3-no-think", NULL, THINKING_OFF, "<|im_end|>")
MOT_CHAT("none", NULL, THINKING_NONE, NULL)
