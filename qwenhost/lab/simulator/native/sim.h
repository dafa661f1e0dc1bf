/* qwenhost lab: simulated NVML. State access and handles; see state.c. */
#ifndef A100SIM_H
#define A100SIM_H
#include <stddef.h>

enum {
    OK = 0, E_UNINIT = 1, E_ARG = 2, E_UNSUPPORTED = 3, E_PERMISSION = 4, E_NOT_FOUND = 6, E_SIZE = 7,
    E_NO_DRIVER = 9, E_LOST = 15, E_OS = 17, E_MISMATCH = 18, E_IN_USE = 19, E_RESOURCES = 23, E_VERSION = 25
};

#define MAX_GPUS 16
#define MAX_GI 14   /* ids 0..13: one per place on the memory axis and size */
#define MAX_CI 7
#define LINKS 12
#define HIDDEN __attribute__((visibility("hidden")))

typedef struct { int kind, gpu, gi, ci; } Handle;
enum { KIND_GPU = 1, KIND_MIG, KIND_GI, KIND_CI };

/* state.c: 0 or an NVML error. Text is always ended by a zero byte. */
HIDDEN int sim_text(char *out, size_t size, const char *format, ...);
HIDDEN long sim_global(const char *key, long fallback);
HIDDEN int sim_gpu_text(int gpu, const char *key, char *out, size_t size);
HIDDEN int sim_gpu_number(int gpu, const char *key, long long *out);
HIDDEN long long sim_gpu_value(int gpu, const char *key, long long fallback);
HIDDEN int sim_begin(void);
HIDDEN void sim_put(const char *value, const char *format, ...);
HIDDEN int sim_end(int result);
HIDDEN void sim_wait_while_hung(void);
HIDDEN int sim_state_present(void);

/* handles.c */
HIDDEN Handle *sim_handle(int kind, int gpu, int gi, int ci);
HIDDEN int sim_device(const Handle *handle, int *gpu);
HIDDEN int sim_ready(void);
HIDDEN int sim_slot(unsigned index);
HIDDEN unsigned sim_count(void);

/* mig.c */
HIDDEN int sim_mig_instances(int gpu);
HIDDEN int sim_mig_memory_mib(const Handle *mig, unsigned long long *mib);
HIDDEN int sim_mig_name(const Handle *mig, char *out, size_t size);

#define DEVICE(handle) int gpu; { int failure = sim_device(handle, &gpu); if (failure) return failure; }
#endif
