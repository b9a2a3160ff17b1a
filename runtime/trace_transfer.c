/* Recording transfers.  See trace.h.
 *
 * StarPU 1.4 tells nobody of its transfers, but it copies through the methods of the datum's
 * interface: those of the interfaces it brings are replaced by ours round them.  Such a method is
 * told where from and where to, not which handle; StarPU asks for the handle's size right before,
 * in the same thread, so the size method, replaced too, keeps the handle.  What a method returns
 * says whether the copy is over; where it is not, its end is known at most: when the first task
 * that waits for it begins (trace_write_data.c).
 *
 * Under SimGrid nothing is copied, but the function that measures a copy's submission is called:
 * the program's own takes its place. */
#include "trace.h"

static _Thread_local starpu_data_handle_t sized; /* whose size was asked for last */

static void tell_transfer(starpu_data_handle_t handle, size_t bytes, unsigned from, unsigned to,
                          double begin_us, double end_us)
{
    const struct mot_trace_transfer_message m = {
        .header = {MOT_TRACE_TRANSFER, mot_trace_slots(sizeof(m)), begin_us},
        .end_us = end_us,
        .bytes = bytes,
        .data = handle ? mot_trace_data_number(handle) : 0,
        .from = (int16_t)from,
        .to = (int16_t)to};
    struct mot_trace_ring *ring = mot_trace_ring_reserve(m.header.slots);
    mot_trace_ring_put(ring, 0, &m, sizeof(m));
    mot_trace_ring_commit(ring, m.header.slots);
}

/* ---- Copy methods --------------------------------------------------------------------------- */

typedef size_t (*size_method)(starpu_data_handle_t handle);
typedef int (*copy_method)(void *from_interface, unsigned from, void *to_interface, unsigned to,
                           void *request);

static size_t watch_size(size_method method, starpu_data_handle_t handle)
{
    sized = handle;
    return method(handle);
}

/* Copies within a node are a task's work, not transfers. */
static int watch_copy(copy_method method, size_method size, void *from_interface, unsigned from,
                      void *to_interface, unsigned to, void *request)
{
    if (!mot_trace_on() || from == to) {
        return method(from_interface, from, to_interface, to, request);
    }
    starpu_data_handle_t handle = sized;
    if (handle && starpu_data_get_interface_on_node(handle, to) != to_interface) { handle = NULL; }
    const double begin_us = starpu_timing_now();
    const int result = method(from_interface, from, to_interface, to, request);
    const double end_us = result == 0 ? starpu_timing_now() : 0.0;
    tell_transfer(handle, handle ? size(handle) : 0, from, to, begin_us, end_us);
    return result;
}

/* The interfaces StarPU brings. */
#define INTERFACES(X) \
    X(variable) X(vector) X(matrix) X(block) X(tensor) X(ndim) X(csr) X(bcsr) X(coo)

#define WATCH(name)                                                                             \
    static size_method name##_size;                                                             \
    static copy_method name##_copy;                                                             \
    static struct starpu_data_copy_methods name##_methods;                                      \
    static size_t watch_##name##_size(starpu_data_handle_t handle)                              \
    {                                                                                           \
        return watch_size(name##_size, handle);                                                 \
    }                                                                                           \
    static int watch_##name##_copy(void *from_interface, unsigned from, void *to_interface,     \
                                   unsigned to, void *request)                                  \
    {                                                                                           \
        return watch_copy(name##_copy, name##_size, from_interface, from, to_interface, to,     \
                          request);                                                             \
    }                                                                                           \
    static void watch_##name(void)                                                              \
    {                                                                                           \
        struct starpu_data_interface_ops *ops = &starpu_interface_##name##_ops;                 \
        if (ops->get_size == watch_##name##_size || !ops->copy_methods->any_to_any) { return; } \
        name##_size = ops->get_size;                                                            \
        name##_methods = *ops->copy_methods;                                                    \
        name##_copy = name##_methods.any_to_any;                                                \
        name##_methods.any_to_any = watch_##name##_copy;                                        \
        ops->get_size = watch_##name##_size;                                                    \
        ops->copy_methods = &name##_methods;                                                    \
    }
INTERFACES(WATCH)
#undef WATCH

void mot_trace_transfers_watch(void)
{
#define WATCH(name) watch_##name();
    INTERFACES(WATCH)
#undef WATCH
}

#if defined(STARPU_SIMGRID)
/* In place of StarPU's function of that name.  The handle's size has just been asked for. */
void starpu_interface_start_driver_copy_async(unsigned from, unsigned to, double *start_us)
{
    *start_us = starpu_timing_now();
    if (!mot_trace_on() || !sized) { return; }
    tell_transfer(sized, starpu_data_get_size(sized), from, to, *start_us, 0.0);
}
#endif
