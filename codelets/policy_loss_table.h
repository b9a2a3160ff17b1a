/* Every policy loss, one line each, in the order in which help lists them.  Included more than
 * once: no guard. */
MOT_LOSS_TYPE(grpo)
MOT_LOSS_TYPE(bnpo)
MOT_LOSS_TYPE(dapo)
MOT_LOSS_TYPE(dr_grpo)
