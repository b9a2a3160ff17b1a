/* The C that gcc, nvcc, hipcc and OpenCL C 1.2 all accept.  A kernel's *_body.h is written in it,
 * so its maths exists once.  A body is C99 with int and float: no recursion, no function pointers,
 * no varargs, no library calls but those below; each pointer to bulk data is MOT_GLOBAL. */
#ifndef MOT_DIALECT_H
#define MOT_DIALECT_H
#if defined(__OPENCL_C_VERSION__) /* not __OPENCL_VERSION__: clang leaves that one undefined */
#    define MOT_DEVICE static inline
#    define MOT_GLOBAL __global
#    define sqrtf(x)   sqrt(x) /* OpenCL C overloads where C has suffixes */
#elif defined(__CUDACC__) || defined(__HIPCC__)
#    define MOT_DEVICE static inline __host__ __device__
#    define MOT_GLOBAL
#else
#    include <math.h>
#    define MOT_DEVICE static inline
#    define MOT_GLOBAL
#endif
#endif
