/* Every built-in reward, one line each, alphabetical; NAME stands for `mot_reward_NAME`, which
 * NAME.c defines.  Included more than once: no guard. */
MOT_REWARD(boxed)
MOT_REWARD(command)
MOT_REWARD(exact)
MOT_REWARD(format)
MOT_REWARD(gsm8k)
MOT_REWARD(number)
