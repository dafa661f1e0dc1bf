/* qwenhost lab: NVML start and stop, handles, error texts, system queries. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int started;
static Handle gpus[MAX_GPUS], instances[MAX_GPUS][MAX_GI];
static Handle computes[MAX_GPUS][MAX_GI][MAX_CI], migs[MAX_GPUS][MAX_GI][MAX_CI];

Handle *sim_handle(int kind, int gpu, int gi, int ci)
{
    Handle *handle = kind == KIND_GPU ? &gpus[gpu] : kind == KIND_GI ? &instances[gpu][gi]
                   : kind == KIND_CI ? &computes[gpu][gi][ci] : &migs[gpu][gi][ci];
    *handle = (Handle){kind, gpu, gi, ci};
    return handle;
}

static int start(void)
{
    char module[80], library[80];
    if (!sim_state_present()) return E_NO_DRIVER;
    sim_wait_while_hung();
    if (!sim_global("driver.loaded", 0)) return E_NO_DRIVER;
    if (sim_text(module, sizeof module, "driver.module_version")) return E_NO_DRIVER;
    if (sim_text(library, sizeof library, "driver.library_version")) return E_NO_DRIVER;
    if (strcmp(module, library)) return E_MISMATCH;
    started++;
    return OK;
}

int nvmlInit(void) { return start(); }
int nvmlInit_v2(void) { return start(); }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return start(); }

int nvmlShutdown(void)
{
    if (!started) return E_UNINIT;
    started--;
    return OK;
}

int sim_ready(void)
{
    if (!started) return E_UNINIT;
    sim_wait_while_hung();
    return OK;
}

int sim_device(const Handle *handle, int *gpu)
{
    int failure = sim_ready();
    if (failure) return failure;
    if (!handle) return E_ARG;
    if (handle->kind == KIND_MIG) return E_UNSUPPORTED;
    if (handle->kind != KIND_GPU) return E_ARG;
    *gpu = handle->gpu;
    if (sim_gpu_value(*gpu, "lost", 0) || !sim_gpu_value(*gpu, "present", 1)) return E_LOST;
    return OK;
}

unsigned sim_count(void)
{
    unsigned count = 0;
    for (int gpu = 0; gpu < sim_global("gpu.count", 0); gpu++) count += sim_gpu_value(gpu, "present", 1) != 0;
    return count;
}

int sim_slot(unsigned index)
{
    for (int gpu = 0; gpu < sim_global("gpu.count", 0); gpu++)
        if (sim_gpu_value(gpu, "present", 1) && index-- == 0) return gpu;
    return -1;
}

static int give(int gpu, Handle **out)
{
    if (gpu < 0 || !out) return gpu < 0 ? E_NOT_FOUND : E_ARG;
    if (sim_gpu_value(gpu, "lost", 0)) return E_LOST;
    *out = sim_handle(KIND_GPU, gpu, 0, 0);
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    int failure = sim_ready();
    if (!failure) *count = sim_count();
    return failure;
}
int nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **out)
{
    int failure = sim_ready();
    if (failure) return failure;
    int gpu = sim_slot(index);
    return gpu < 0 ? E_ARG : give(gpu, out);
}
int nvmlDeviceGetHandleByIndex(unsigned index, Handle **out) { return nvmlDeviceGetHandleByIndex_v2(index, out); }

static int by_text(const char *key, const char *wanted, Handle **out)
{
    char value[96];
    int failure = sim_ready();
    if (failure) return failure;
    for (unsigned index = 0; index < sim_count(); index++) {
        int gpu = sim_slot(index);
        if (!sim_gpu_text(gpu, key, value, sizeof value) && !strcasecmp(value, wanted)) return give(gpu, out);
    }
    return E_NOT_FOUND;
}

int nvmlDeviceGetHandleBySerial(const char *serial, Handle **out) { return by_text("serial", serial, out); }

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, Handle **out)
{
    unsigned domain = 0, bus, slot, function = 0;
    char wanted[32];
    if (!bus_id) return E_ARG;
    if (sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
        domain = 0;
        if (sscanf(bus_id, "%x:%x.%x", &bus, &slot, &function) < 2) return E_ARG;
    }
    snprintf(wanted, sizeof wanted, "%04x:%02x:%02x.%x", domain, bus, slot, function);
    return by_text("bus_id", wanted, out);
}
int nvmlDeviceGetHandleByPciBusId(const char *id, Handle **out) { return nvmlDeviceGetHandleByPciBusId_v2(id, out); }

static int mig_by_uuid(const char *uuid, Handle **out)
{
    char value[96];
    for (unsigned index = 0; index < sim_count(); index++)
        for (int gi = 0; gi < MAX_GI; gi++)
            for (int ci = 0; ci < MAX_CI; ci++) {
                int gpu = sim_slot(index);
                if (sim_text(value, sizeof value, "gpu%d.gi%d.ci%d.uuid", gpu, gi, ci)) continue;
                if (!strcmp(value, uuid)) { *out = sim_handle(KIND_MIG, gpu, gi, ci); return OK; }
            }
    return E_NOT_FOUND;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Handle **out)
{
    if (!uuid || !out) return E_ARG;
    int failure = by_text("uuid", uuid, out);
    return failure == E_NOT_FOUND && !strncmp(uuid, "MIG-", 4) ? mig_by_uuid(uuid, out) : failure;
}

static int system_text(const char *key, char *out, unsigned size)
{
    int failure = sim_ready();
    return failure ? failure : sim_text(out, size, "%s", key);
}

int nvmlSystemGetDriverVersion(char *out, unsigned size) { return system_text("driver.module_version", out, size); }

/* NVML's own version drops nothing on R580: "13.580.95.05" = CUDA major, then the driver version. */
int nvmlSystemGetNVMLVersion(char *out, unsigned size)
{
    char library[80];
    int failure = system_text("driver.library_version", library, sizeof library);
    if (failure) return failure;
    return snprintf(out, size, "%ld.%s", sim_global("driver.cuda", 0) / 1000, library) < (int)size ? OK : E_SIZE;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = (int)sim_global("driver.cuda", 0);
    return *version ? OK : 12;
}
int nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

int nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *stream = fopen(path, "r");
    if (!stream) return E_NOT_FOUND;
    size_t length = fread(out, 1, size - 1, stream);
    out[length] = 0;
    fclose(stream);
    return OK;
}

const char *nvmlErrorString(int code)
{
    static const char *const known[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power",
        "Driver Not Loaded", "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found",
        "Function Not Found", "Corrupted infoROM", "GPU is lost", "GPU requires reset",
        "The operating system has blocked the request.", "Driver/library version mismatch",
        "In use by another client", "Insufficient Memory", "No data",
        "The requested vgpu operation is not available on target device, because ECC is enabled.",
        "Insufficient Resources", "Frequency Not Supported", "Argument version mismatch",
        "Requested functionality has been deprecated", "System is not in ready state", "GPU not found",
        "Invalid state",
    };
    return code >= 0 && code < (int)(sizeof known / sizeof *known) ? known[code] : "Unknown Error";
}
