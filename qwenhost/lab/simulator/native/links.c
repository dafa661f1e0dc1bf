/* qwenhost lab: PCIe, NVLink, topology, affinity and field values. */
#include "sim.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long u64;

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} Pci;

static int pci_text(Pci *out, const char *bus_id)
{
    unsigned function;
    memset(out, 0, sizeof *out);
    if (sscanf(bus_id, "%x:%x:%x.%x", &out->domain, &out->bus, &out->device, &function) != 4) return E_UNSUPPORTED;
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.%X", out->domain & 0xffff, out->bus & 0xff,
             out->device & 0xff, function & 7);
    snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.%X", out->domain, out->bus, out->device, function);
    return OK;
}

int nvmlDeviceGetPciInfo_v3(Handle *handle, Pci *out)
{
    DEVICE(handle)
    char bus_id[32];
    int failure = sim_gpu_text(gpu, "bus_id", bus_id, sizeof bus_id);
    if (!failure) failure = pci_text(out, bus_id);
    out->device_id = (unsigned)sim_gpu_value(gpu, "device_id", 0) << 16 | 0x10de;
    out->subsystem_id = (unsigned)sim_gpu_value(gpu, "subsystem_id", 0) << 16 | 0x10de;
    return failure;
}
int nvmlDeviceGetPciInfo_v2(Handle *handle, Pci *out) { return nvmlDeviceGetPciInfo_v3(handle, out); }

static int number(const Handle *handle, const char *key, unsigned *out)
{
    DEVICE(handle)
    long long value;
    int failure = sim_gpu_number(gpu, key, &value);
    if (!failure) *out = (unsigned)value;
    return failure;
}

#define NUMBER(function, key) int function(Handle *h, unsigned *out) { return number(h, key, out); }
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "link_generation")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "link_width")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "link_generation_max")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "link_width_max")
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "link_generation_max")
NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie_replays")
NUMBER(nvmlDeviceGetPcieLinkMaxSpeed, "link_generation_max")

int nvmlDeviceGetPcieThroughput(Handle *handle, int counter, unsigned *out)
{
    DEVICE(handle)
    if (sim_gpu_value(gpu, "mig_mode", 0)) return E_UNSUPPORTED;
    *out = counter ? 300 : 350;     /* KB/s, an idle board in a public capture */
    return OK;
}

/* 0 and the slot when the link can be asked about: links 0..11, on NVLink boards, outside MIG mode. */
static int link_of(const Handle *handle, unsigned link, int *slot)
{
    DEVICE(handle)
    *slot = gpu;
    if (link >= (unsigned)sim_gpu_value(gpu, "links", 0)) return E_UNSUPPORTED;
    return sim_gpu_value(gpu, "mig_mode", 0) ? E_UNSUPPORTED : OK;
}

static int link_up(int gpu, unsigned link)
{
    char key[24];
    snprintf(key, sizeof key, "nvlink%u", link);
    return (int)sim_gpu_value(gpu, key, 0);
}

int nvmlDeviceGetNvLinkState(Handle *handle, unsigned link, unsigned *out)
{
    int gpu, failure = link_of(handle, link, &gpu);
    if (!failure) *out = (unsigned)link_up(gpu, link);
    return failure;
}

int nvmlDeviceGetNvLinkVersion(Handle *handle, unsigned link, unsigned *out)
{
    int gpu, failure = link_of(handle, link, &gpu);
    if (!failure) *out = 4;         /* NVML_NVLINK_VERSION_3_0 in NVML 13 */
    return failure;
}

int nvmlDeviceGetNvLinkCapability(Handle *handle, unsigned link, unsigned capability, unsigned *out)
{
    int gpu, failure = link_of(handle, link, &gpu);
    if (!failure) *out = capability != 4;   /* 4: SLI bridge */
    return failure;
}

static int remote(Handle *handle, unsigned link, char *out, size_t size)
{
    char key[24];
    int gpu, failure = link_of(handle, link, &gpu);
    if (failure) return failure;
    if (!link_up(gpu, link)) return E_UNSUPPORTED;
    snprintf(key, sizeof key, "nvlink%u_to", link);
    return sim_gpu_text(gpu, key, out, size);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Handle *handle, unsigned link, Pci *out)
{
    char bus_id[32];
    int failure = remote(handle, link, bus_id, sizeof bus_id);
    if (failure) return failure;
    failure = pci_text(out, bus_id);
    out->device_id = sim_global("nvswitch.count", 0) ? 0x1af110de : (unsigned)sim_global("board.device_id", 0) << 16 | 0x10de;
    return failure;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(Handle *handle, unsigned link, unsigned *out)
{
    char bus_id[32];
    int failure = remote(handle, link, bus_id, sizeof bus_id);
    if (!failure) *out = sim_global("nvswitch.count", 0) ? 2 : 0;   /* 2: switch, 0: GPU */
    return failure;
}

static u64 link_errors(int gpu, unsigned link, const char *what)
{
    char key[48];
    snprintf(key, sizeof key, "nvlink%u_%s", link, what);
    return (u64)sim_gpu_value(gpu, key, 0);
}

static const char *const ERRORS[] = {"replay", "recovery", "crc_flit", "crc_data"};

int nvmlDeviceGetNvLinkErrorCounter(Handle *handle, unsigned link, int counter, u64 *out)
{
    int gpu, failure = link_of(handle, link, &gpu);
    if (failure) return failure;
    if (counter < 0 || counter > 3) return E_UNSUPPORTED;
    *out = link_errors(gpu, link, ERRORS[counter]);
    return OK;
}

static int active_links_to(int gpu, const char *bus_id)
{
    int count = 0;
    char key[24], to[32];
    for (unsigned link = 0; link < LINKS; link++) {
        snprintf(key, sizeof key, "nvlink%u_to", link);
        count += link_up(gpu, link) && !sim_gpu_text(gpu, key, to, sizeof to) && (!bus_id || !strcmp(to, bus_id));
    }
    return count;
}

int nvmlDeviceGetTopologyCommonAncestor(Handle *first, Handle *second, unsigned *out)
{
    int other, failure = sim_device(second, &other);
    if (failure) return failure;
    DEVICE(first)
    long long numa = sim_gpu_value(gpu, "numa", -1), other_numa = sim_gpu_value(other, "numa", -1);
    int shared = sim_gpu_value(gpu, "pcie_switch", -1) == sim_gpu_value(other, "pcie_switch", -2);
    *out = gpu == other ? 0 : shared ? 20 : numa == other_numa ? 40 : 50;
    return OK;
}

static int bridged(int gpu, int other)
{
    char bus_id[32];
    if (sim_global("nvswitch.count", 0)) return active_links_to(gpu, NULL) && active_links_to(other, NULL);
    return !sim_gpu_text(other, "bus_id", bus_id, sizeof bus_id) && active_links_to(gpu, bus_id);
}

/* index: 0 read, 1 write, 2 NVLink, 3 atomics, 4 PCI. out: 0 OK, 5 not supported. No peer access out of MIG. */
int nvmlDeviceGetP2PStatus(Handle *first, Handle *second, int index, unsigned *out)
{
    int other, failure = sim_device(second, &other);
    if (failure) return failure;
    DEVICE(first)
    if (index < 0 || index > 4) return E_ARG;
    int isolated = sim_gpu_value(gpu, "mig_mode", 0) || sim_gpu_value(other, "mig_mode", 0);
    int over_nvlink = index == 2 || index == 3;
    *out = isolated || (over_nvlink && !bridged(gpu, other)) ? 5 : 0;
    return OK;
}

static int cpus(int gpu, unsigned words, unsigned long *set)
{
    char list[512], *rest = list, *one;
    memset(set, 0, words * sizeof *set);
    int failure = sim_text(list, sizeof list, "numa%lld.cpulist", sim_gpu_value(gpu, "numa", 0));
    if (failure) return failure;
    while ((one = strsep(&rest, ","))) {
        unsigned first, last;
        int found = sscanf(one, "%u-%u", &first, &last);
        if (found < 1) continue;
        if (found == 1) last = first;
        for (; first <= last && first < words * 64; first++) set[first / 64] |= 1ul << (first % 64);
    }
    return OK;
}

int nvmlDeviceGetCpuAffinity(Handle *handle, unsigned words, unsigned long *set)
{
    DEVICE(handle)
    return cpus(gpu, words, set);
}

int nvmlDeviceGetCpuAffinityWithinScope(Handle *handle, unsigned words, unsigned long *set, unsigned scope)
{
    (void)scope;    /* one NUMA node per socket here */
    return nvmlDeviceGetCpuAffinity(handle, words, set);
}

int nvmlDeviceGetMemoryAffinity(Handle *handle, unsigned words, unsigned long *set, unsigned scope)
{
    DEVICE(handle)
    (void)scope;
    memset(set, 0, words * sizeof *set);
    long long node = sim_gpu_value(gpu, "numa", -1);
    if (node < 0 || node >= (long long)words * 64) return E_UNSUPPORTED;
    set[node / 64] |= 1ul << (node % 64);
    return OK;
}

typedef struct {
    uint32_t field, scope;
    int64_t timestamp, latency;
    uint32_t type;
    int32_t result;
    union { unsigned number; u64 large; } value;
} Field;

enum { TYPE_UNSIGNED = 1, TYPE_LARGE = 3 };

static int link_field(unsigned field, unsigned *link, const char **what)
{
    static const struct { unsigned low, high; const char *what; } rows[] = {
        {32, 96, "crc_flit"}, {39, 102, "crc_data"}, {46, 108, "replay"}, {53, 114, "recovery"}, {84, 132, "speed"},
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        *what = rows[row].what;
        if (field >= rows[row].low && field < rows[row].low + 6) { *link = field - rows[row].low; return 1; }
        if (field >= rows[row].high && field < rows[row].high + 6) { *link = 6 + field - rows[row].high; return 1; }
        if (row < 4 && field == rows[row].low + 6) { *link = LINKS; return 1; }     /* the total */
    }
    return 0;
}

static int link_value(Handle *handle, unsigned link, const char *what, Field *out)
{
    int gpu, failure = link_of(handle, link == LINKS ? 0 : link, &gpu);
    if (failure) return failure;
    out->type = TYPE_LARGE;
    out->value.large = 0;
    if (!strcmp(what, "speed")) {
        out->type = TYPE_UNSIGNED;
        out->value.number = link_up(gpu, link) ? (unsigned)sim_gpu_value(gpu, "link_speed_mbps", 0) : 0;
        return OK;
    }
    for (unsigned each = link == LINKS ? 0 : link; each < (link == LINKS ? LINKS : link + 1); each++)
        out->value.large += link_errors(gpu, each, what);
    return OK;
}

static int plain_value(int gpu, Field *out)
{
    static const struct { unsigned field; const char *key; } rows[] = {
        {82, "memory_temperature"}, {94, "pcie_replays"}, {95, "pcie_rollovers"}, {186, "power_mw"},
        {187, "power_min_mw"}, {188, "power_max_mw"}, {189, "power_default_mw"}, {190, "power_limit_mw"},
        {192, "power_limit_mw"}, {230, "recovery_action"}, {142, "remap_correctable"}, {143, "remap_uncorrectable"},
        {144, "remap_pending"}, {145, "remap_failure"},
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        if (rows[row].field != out->field) continue;
        if (out->field >= 142 && out->field <= 145 && sim_mig_instances(gpu)) return E_UNSUPPORTED;
        long long value = 0;
        int failure = sim_gpu_number(gpu, rows[row].key, &value);
        out->value.large = (u64)value;
        return failure;
    }
    return E_UNSUPPORTED;
}

static int field_value(Handle *handle, int gpu, Field *out)
{
    unsigned link;
    const char *what;
    out->type = TYPE_UNSIGNED;
    if (link_field(out->field, &link, &what)) return link_value(handle, link, what, out);
    if (out->field == 91 || out->field == 147 || out->field == 90) {
        int failure = link_of(handle, 0, &gpu);
        out->value.large = out->field == 91 ? (u64)sim_gpu_value(gpu, "links", 0)
                         : out->field == 90 ? (u64)sim_gpu_value(gpu, "link_speed_mbps", 0)
                         : sim_global("nvswitch.count", 0) ? (u64)active_links_to(gpu, NULL) : 0;
        return failure;
    }
    if (out->field == 74 || out->field == 76 || (out->field >= 269 && out->field <= 271)) {
        out->type = TYPE_LARGE;     /* nanoseconds spent under a clock event reason */
        char key[32];
        snprintf(key, sizeof key, "event_ns_%u", out->field);
        out->value.large = (u64)sim_gpu_value(gpu, key, 0);
        return OK;
    }
    return plain_value(gpu, out);
}

int nvmlDeviceGetFieldValues(Handle *handle, int count, Field *fields)
{
    DEVICE(handle)
    for (int index = 0; index < count; index++) {
        fields[index].value.large = 0;
        fields[index].result = field_value(handle, gpu, &fields[index]);
    }
    return OK;
}
