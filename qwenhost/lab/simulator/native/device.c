/* qwenhost lab: NVML queries of one GPU. What the state does not hold is NOT_SUPPORTED, as on a real A100. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef unsigned long long u64;
static const u64 MIB = 1024 * 1024;

static int number(const Handle *handle, const char *key, unsigned *out)
{
    DEVICE(handle)
    long long value;
    int failure = sim_gpu_number(gpu, key, &value);
    if (!failure) *out = (unsigned)value;
    return failure;
}

static int string(const Handle *handle, const char *key, char *out, unsigned size)
{
    DEVICE(handle)
    return sim_gpu_text(gpu, key, out, size);
}

#define NUMBER(function, key) int function(Handle *h, unsigned *out) { return number(h, key, out); }
#define STRING(function, key) int function(Handle *h, char *out, unsigned size) { return string(h, key, out, size); }

STRING(nvmlDeviceGetSerial, "serial")
STRING(nvmlDeviceGetVbiosVersion, "vbios")
STRING(nvmlDeviceGetInforomImageVersion, "inforom_image")
STRING(nvmlDeviceGetBoardPartNumber, "part")
NUMBER(nvmlDeviceGetMinorNumber, "minor")
NUMBER(nvmlDeviceGetModuleId, "module_id")
NUMBER(nvmlDeviceGetPersistenceMode, "persistence")
NUMBER(nvmlDeviceGetPowerManagementLimit, "power_limit_mw")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power_default_mw")
NUMBER(nvmlDeviceGetPowerUsage, "power_mw")
NUMBER(nvmlDeviceGetPerformanceState, "performance_state")
NUMBER(nvmlDeviceGetPowerState, "performance_state")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
NUMBER(nvmlDeviceGetBrand, "brand")
NUMBER(nvmlDeviceGetArchitecture, "architecture")
NUMBER(nvmlDeviceGetNumGpuCores, "cores")
NUMBER(nvmlDeviceGetMemoryBusWidth, "memory_bus_width_bits")
NUMBER(nvmlDeviceGetMultiGpuBoard, "multi_gpu_board")
NUMBER(nvmlDeviceGetBoardId, "board_id")
NUMBER(nvmlDeviceGetBusType, "bus_type")
NUMBER(nvmlDeviceGetFanSpeed, "fan_percent")
NUMBER(nvmlDeviceGetNumFans, "fans")

int nvmlDeviceGetName(Handle *handle, char *out, unsigned size)
{
    int failure = sim_ready();
    if (failure || !handle) return failure ? failure : E_ARG;
    if (handle->kind == KIND_MIG) return sim_mig_name(handle, out, size);
    return string(handle, "name", out, size);
}

int nvmlDeviceGetUUID(Handle *handle, char *out, unsigned size)
{
    int failure = sim_ready();
    if (failure || !handle) return failure ? failure : E_ARG;
    if (handle->kind != KIND_MIG) return string(handle, "uuid", out, size);
    return sim_text(out, size, "gpu%d.gi%d.ci%d.uuid", handle->gpu, handle->gi, handle->ci);
}

int nvmlDeviceGetIndex(Handle *handle, unsigned *out)
{
    DEVICE(handle)
    for (*out = 0; sim_slot(*out) >= 0; ++*out)
        if (sim_slot(*out) == gpu) return OK;
    return E_NOT_FOUND;
}

int nvmlDeviceGetInforomVersion(Handle *handle, int object, char *out, unsigned size)
{
    return object == 0 ? string(handle, "inforom_oem", out, size)
         : object == 1 ? string(handle, "inforom_ecc", out, size) : E_UNSUPPORTED;
}

int nvmlDeviceValidateInforom(Handle *handle) { DEVICE(handle) return OK; }
int nvmlDeviceGetVirtualizationMode(Handle *handle, unsigned *out) { DEVICE(handle) *out = 0; return OK; }

int nvmlDeviceGetGspFirmwareVersion(Handle *handle, char *out)
{
    DEVICE(handle)
    return sim_text(out, 64, "driver.module_version");
}

int nvmlDeviceGetGspFirmwareMode(Handle *handle, unsigned *enabled, unsigned *preset)
{
    *preset = 1;
    return number(handle, "gsp", enabled);
}

int nvmlDeviceGetCudaComputeCapability(Handle *handle, int *major, int *minor)
{
    DEVICE(handle)
    *major = 8;
    *minor = 0;
    return OK;
}

typedef struct { u64 total, free, used; } Memory;
typedef struct { unsigned version; u64 total, reserved, free, used; } Memory2;

static int memory(Handle *handle, Memory2 *out)
{
    int failure = sim_ready();
    if (failure || !handle) return failure ? failure : E_ARG;
    u64 mib;
    if (handle->kind == KIND_MIG) {
        failure = sim_mig_memory_mib(handle, &mib);
        if (failure) return failure;
        out->total = mib * MIB;
        out->used = 37 * MIB / 3;      /* 12 MiB and a part: an idle instance in public captures */
        out->reserved = 0;
    } else {
        DEVICE(handle)
        out->total = (u64)sim_gpu_value(gpu, "memory_mib", 0) * MIB;
        out->reserved = (u64)sim_gpu_value(gpu, "reserved_mib", 0) * MIB;
        out->used = (u64)sim_gpu_value(gpu, "used_mib", 0) * MIB;
    }
    out->free = out->total - out->reserved - out->used;
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(Handle *handle, Memory2 *out)
{
    return out->version == 0x02000028 ? memory(handle, out) : E_VERSION;
}

/* Version 1 counts what the driver reserves as used. */
int nvmlDeviceGetMemoryInfo(Handle *handle, Memory *out)
{
    Memory2 full;
    int failure = memory(handle, &full);
    if (!failure) *out = (Memory){full.total, full.free, full.used + full.reserved};
    return failure;
}

int nvmlDeviceGetBAR1MemoryInfo(Handle *handle, Memory *out)
{
    DEVICE(handle)
    out->total = (u64)sim_gpu_value(gpu, "bar1_mib", 0) * MIB;
    out->used = MIB;
    out->free = out->total - out->used;
    return OK;
}

int nvmlDeviceGetPowerManagementMode(Handle *handle, unsigned *out) { DEVICE(handle) *out = 1; return OK; }

int nvmlDeviceGetPowerManagementLimitConstraints(Handle *handle, unsigned *low, unsigned *high)
{
    int failure = number(handle, "power_min_mw", low);
    return failure ? failure : number(handle, "power_max_mw", high);
}

static int put_number(int gpu, const char *key, unsigned value)
{
    char text[24];
    int failure = sim_begin();
    if (failure) return failure;
    snprintf(text, sizeof text, "%u", value);
    sim_put(text, "gpu%d.%s", gpu, key);
    return sim_end(OK);
}

int nvmlDeviceSetPowerManagementLimit(Handle *handle, unsigned limit)
{
    DEVICE(handle)
    if (limit < sim_gpu_value(gpu, "power_min_mw", 0) || limit > sim_gpu_value(gpu, "power_max_mw", 0)) return E_ARG;
    return put_number(gpu, "power_limit_mw", limit);
}

int nvmlDeviceSetPersistenceMode(Handle *handle, unsigned mode)
{
    DEVICE(handle)
    return mode > 1 ? E_ARG : put_number(gpu, "persistence", mode);
}

int nvmlDeviceGetTemperature(Handle *handle, int sensor, unsigned *out)
{
    return sensor ? E_ARG : number(handle, "temperature", out);
}

typedef struct { unsigned version; int sensor, temperature; } TemperatureReading;

int nvmlDeviceGetTemperatureV(Handle *handle, TemperatureReading *out)
{
    return nvmlDeviceGetTemperature(handle, out->sensor, (unsigned *)&out->temperature);
}

int nvmlDeviceGetTemperatureThreshold(Handle *handle, int kind, unsigned *out)
{
    static const char *const keys[] = {
        "temperature_shutdown", "temperature_slowdown", "temperature_memory_max", "temperature_gpu_max"
    };
    return kind < 0 || kind > 3 ? E_UNSUPPORTED : number(handle, keys[kind], out);
}

static const char *clock_key(const char *prefix, int kind)
{
    static __thread char key[40];
    static const char *const names[] = {"graphics", "sm", "memory", "video"};
    if (kind < 0 || kind > 3) return NULL;
    snprintf(key, sizeof key, "%s_%s_mhz", prefix, names[kind]);
    return key;
}

static int clock_of(Handle *handle, const char *prefix, int kind, unsigned *out)
{
    const char *key = clock_key(prefix, kind);
    return key ? number(handle, key, out) : E_ARG;
}

int nvmlDeviceGetClockInfo(Handle *h, int kind, unsigned *out) { return clock_of(h, "clock", kind, out); }
int nvmlDeviceGetMaxClockInfo(Handle *h, int kind, unsigned *out) { return clock_of(h, "clock_max", kind, out); }
int nvmlDeviceGetApplicationsClock(Handle *h, int kind, unsigned *out) { return clock_of(h, "clock_app", kind, out); }
int nvmlDeviceGetDefaultApplicationsClock(Handle *h, int kind, unsigned *out)
{
    return clock_of(h, "clock_app", kind, out);
}

int nvmlDeviceGetClock(Handle *handle, int kind, int which, unsigned *out)
{
    return which == 0 ? clock_of(handle, "clock", kind, out) : clock_of(handle, "clock_app", kind, out);
}

int nvmlDeviceGetUtilizationRates(Handle *handle, unsigned out[2])
{
    DEVICE(handle)
    if (sim_gpu_value(gpu, "mig_mode", 0)) return E_UNSUPPORTED;
    out[0] = (unsigned)sim_gpu_value(gpu, "utilization", 0);
    out[1] = 0;
    return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(Handle *handle, u64 *out)
{
    DEVICE(handle)
    *out = (u64)sim_gpu_value(gpu, "events", 0);
    return OK;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Handle *h, u64 *o) { return nvmlDeviceGetCurrentClocksEventReasons(h, o); }

int nvmlDeviceGetSupportedClocksEventReasons(Handle *handle, u64 *out) { DEVICE(handle) *out = 0x1ff; return OK; }
int nvmlDeviceGetSupportedClocksThrottleReasons(Handle *h, u64 *o)
{
    return nvmlDeviceGetSupportedClocksEventReasons(h, o);
}

int nvmlDeviceGetEccMode(Handle *handle, unsigned *current, unsigned *pending)
{
    int failure = number(handle, "ecc_mode", current);
    return failure ? failure : number(handle, "ecc_pending", pending);
}

int nvmlDeviceGetDefaultEccMode(Handle *handle, unsigned *out) { DEVICE(handle) *out = 1; return OK; }

static u64 errors(int gpu, int kind, int aggregate, const char *place)
{
    char key[40];
    snprintf(key, sizeof key, "ecc_%s_%s_%s", aggregate ? "aggregate" : "volatile", place, kind ? "uncorrectable" : "correctable");
    return (u64)sim_gpu_value(gpu, key, 0);
}

int nvmlDeviceGetTotalEccErrors(Handle *handle, int kind, int aggregate, u64 *out)
{
    DEVICE(handle)
    *out = errors(gpu, kind, aggregate, "sram") + errors(gpu, kind, aggregate, "dram");
    return OK;
}

int nvmlDeviceGetMemoryErrorCounter(Handle *handle, int kind, int aggregate, int location, u64 *out)
{
    DEVICE(handle)
    if (location != 2 && location != 7) return E_UNSUPPORTED;   /* 2: device memory, 7: SRAM */
    *out = errors(gpu, kind, aggregate, location == 2 ? "dram" : "sram");
    return OK;
}

typedef struct { unsigned version; u64 counts[11]; unsigned exceeded; } SramStatus;

int nvmlDeviceGetSramEccErrorStatus(Handle *handle, SramStatus *out)
{
    DEVICE(handle)
    if (out->version != 0x1000068) return E_VERSION;
    memset(out->counts, 0, sizeof out->counts);
    out->counts[0] = errors(gpu, 1, 1, "sram");
    out->counts[2] = errors(gpu, 0, 1, "sram");
    out->counts[3] = errors(gpu, 1, 0, "sram");
    out->counts[5] = errors(gpu, 0, 0, "sram");
    out->exceeded = (unsigned)sim_gpu_value(gpu, "sram_threshold_exceeded", 0);
    return OK;
}

int nvmlDeviceGetRemappedRows(Handle *handle, unsigned *fixed, unsigned *broken, unsigned *pending, unsigned *failed)
{
    DEVICE(handle)
    if (sim_mig_instances(gpu)) return E_UNSUPPORTED;
    *fixed = (unsigned)sim_gpu_value(gpu, "remap_correctable", 0);
    *broken = (unsigned)sim_gpu_value(gpu, "remap_uncorrectable", 0);
    *pending = (unsigned)sim_gpu_value(gpu, "remap_pending", 0);
    *failed = (unsigned)sim_gpu_value(gpu, "remap_failure", 0);
    return OK;
}

int nvmlDeviceGetRowRemapperHistogram(Handle *handle, unsigned out[5])
{
    DEVICE(handle)
    if (sim_mig_instances(gpu)) return E_UNSUPPORTED;
    unsigned high = (unsigned)sim_gpu_value(gpu, "remap_banks_high", 0);
    memset(out, 0, 5 * sizeof *out);
    out[0] = (unsigned)sim_gpu_value(gpu, "remap_banks", 0) - high;
    out[1] = high;
    return OK;
}

/* clients: "pid/name/MiB,pid/name/MiB" */
typedef struct { unsigned pid; u64 used; unsigned gi, ci; } Process;

int nvmlDeviceGetComputeRunningProcesses_v3(Handle *handle, unsigned *count, Process *out)
{
    DEVICE(handle)
    char clients[1024], *rest = clients, *one;
    unsigned found = 0, limit = out ? *count : 0;
    if (sim_gpu_text(gpu, "clients", clients, sizeof clients)) clients[0] = 0;
    while ((one = strsep(&rest, ","))) {
        unsigned pid;
        u64 mib = 0;
        if (sscanf(one, "%u/%*[^/]/%llu", &pid, &mib) < 1) continue;
        if (found < limit) out[found] = (Process){pid, mib * MIB, 0xffffffffu, 0xffffffffu};
        found++;
    }
    *count = found;
    return found > limit ? E_SIZE : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v2(Handle *h, unsigned *n, Process *o)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(h, n, o);
}

static int none(Handle *handle, unsigned *count) { DEVICE(handle) *count = 0; return OK; }
int nvmlDeviceGetGraphicsRunningProcesses_v3(Handle *h, unsigned *n, Process *o) { (void)o; return none(h, n); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(Handle *h, unsigned *n, Process *o) { (void)o; return none(h, n); }

/* Page retirement and the fabric query do not exist on A100; the driver's NUMA nodes are not GPUs on x86. */
int nvmlDeviceGetRetiredPages(Handle *handle) { DEVICE(handle) return E_UNSUPPORTED; }
int nvmlDeviceGetRetiredPages_v2(Handle *handle) { DEVICE(handle) return E_UNSUPPORTED; }
int nvmlDeviceGetRetiredPagesPendingStatus(Handle *handle) { DEVICE(handle) return E_UNSUPPORTED; }
int nvmlDeviceGetGpuFabricInfo(Handle *handle) { DEVICE(handle) return E_UNSUPPORTED; }
int nvmlDeviceGetGpuFabricInfoV(Handle *handle) { DEVICE(handle) return E_UNSUPPORTED; }
int nvmlDeviceGetNumaNodeId(Handle *handle) { DEVICE(handle) return E_UNSUPPORTED; }
int nvmlDeviceGetMarginTemperature(Handle *handle) { DEVICE(handle) return E_UNSUPPORTED; }
