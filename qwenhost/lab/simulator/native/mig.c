/* qwenhost lab: MIG mode, GPU instances, compute instances and MIG devices.
 * State: gpuN.giG=profile:start:size and gpuN.giG.ciC=profile:start:size with gpuN.giG.ciC.uuid.
 * profile.ID=name:nvml constant:slices:memory slices:MiB:SMs:max:CE:DEC:JPEG:OFA:starts, the starts joined by
 * commas in the order in which the driver tries them. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long u64;

typedef struct {
    unsigned id, constant, slices, memory_slices, mib, sms, max, ce, dec, jpeg, ofa, starts[8], start_count;
    char name[32];
} Profile;

typedef struct { unsigned profile, start, size; } Place;

static const unsigned IDS[] = {19, 20, 21, 15, 14, 9, 5, 6, 0};  /* 21 and 6: of A30 */
#define PROFILES (sizeof IDS / sizeof *IDS)

static int profile_of(unsigned id, Profile *out)
{
    char text[256], starts[64] = "", *rest = starts, *one;
    int failure = sim_text(text, sizeof text, "profile.%u", id);
    if (failure) return failure;
    *out = (Profile){.id = id};
    int found = sscanf(text, "%31[^:]:%u:%u:%u:%u:%u:%u:%u:%u:%u:%u:%63s", out->name, &out->constant, &out->slices,
                       &out->memory_slices, &out->mib, &out->sms, &out->max, &out->ce, &out->dec, &out->jpeg,
                       &out->ofa, starts);
    while ((one = strsep(&rest, ",")) && out->start_count < 8) out->starts[out->start_count++] = (unsigned)atoi(one);
    return found == 12 ? OK : E_UNSUPPORTED;
}

static int place_of(const char *key, Place *out)
{
    char text[64];
    if (sim_text(text, sizeof text, "%s", key)) return 0;
    return sscanf(text, "%u:%u:%u", &out->profile, &out->start, &out->size) == 3;
}

static int gi_place(int gpu, int gi, Place *out)
{
    char key[48];
    snprintf(key, sizeof key, "gpu%d.gi%d", gpu, gi);
    return place_of(key, out);
}

static int ci_place(int gpu, int gi, int ci, Place *out)
{
    char key[48];
    snprintf(key, sizeof key, "gpu%d.gi%d.ci%d", gpu, gi, ci);
    return place_of(key, out);
}

int sim_mig_instances(int gpu)
{
    int count = 0;
    Place place;
    for (int gi = 0; gi < MAX_GI; gi++) count += gi_place(gpu, gi, &place);
    return count;
}

static int ci_count(int gpu, int gi)
{
    int count = 0;
    Place place;
    for (int ci = 0; ci < MAX_CI; ci++) count += ci_place(gpu, gi, ci, &place);
    return count;
}

/* The driver's instance ids follow the place: 7g 0, halves 1-2, quarters 3-6, eighths 7-13. */
static int gi_id(unsigned start, unsigned size)
{
    return size == 8 ? 0 : size == 4 ? 1 + (int)start / 4 : size == 2 ? 3 + (int)start / 2 : 7 + (int)start;
}

static unsigned occupied(int gpu)
{
    unsigned mask = 0;
    Place place;
    for (int gi = 0; gi < MAX_GI; gi++)
        if (gi_place(gpu, gi, &place)) mask |= ((1u << place.size) - 1) << place.start;
    return mask;
}

static unsigned in_use(int gpu, unsigned id)
{
    unsigned count = 0;
    Place place;
    for (int gi = 0; gi < MAX_GI; gi++) count += gi_place(gpu, gi, &place) && place.profile == id;
    return count;
}

static unsigned remaining(int gpu, const Profile *profile)
{
    unsigned taken = occupied(gpu), fit = 0, limit = profile->max - in_use(gpu, profile->id);
    for (unsigned each = 0; each < profile->start_count; each++) {
        unsigned mask = ((1u << profile->memory_slices) - 1) << profile->starts[each];
        if (!(taken & mask)) { fit++; taken |= mask; }
    }
    return fit < limit ? fit : limit;
}

static int mig_gpu(const Handle *handle, int *gpu)
{
    int failure = sim_device(handle, gpu);
    if (failure) return failure;
    return sim_gpu_value(*gpu, "mig_mode", 0) ? OK : E_UNSUPPORTED;
}

int nvmlDeviceGetMigMode(Handle *handle, unsigned *current, unsigned *pending)
{
    DEVICE(handle)
    *current = (unsigned)sim_gpu_value(gpu, "mig_mode", 0);
    *pending = (unsigned)sim_gpu_value(gpu, "mig_pending", 0);
    return OK;
}

/* Ampere resets the GPU for the switch; a client that holds it leaves the new mode pending. */
int nvmlDeviceSetMigMode(Handle *handle, unsigned mode, int *activation)
{
    DEVICE(handle)
    char clients[1024] = "";
    if (mode > 1) return E_ARG;
    int failure = sim_begin();
    if (failure) return failure;
    if (!mode && sim_mig_instances(gpu)) return sim_end(E_IN_USE);
    sim_gpu_text(gpu, "clients", clients, sizeof clients);
    int held = clients[0] && (unsigned)sim_gpu_value(gpu, "mig_mode", 0) != mode;
    sim_put(mode ? "1" : "0", "gpu%d.mig_pending", gpu);
    if (!held) sim_put(mode ? "1" : "0", "gpu%d.mig_mode", gpu);
    *activation = held ? E_IN_USE : OK;
    return sim_end(OK);
}

typedef struct { unsigned id, p2p, slices, instances, sms, ce, dec, enc, jpeg, ofa; u64 mib; } GiProfile;
typedef struct { unsigned version, id, p2p, slices, instances, sms, ce, dec, enc, jpeg, ofa; u64 mib; char name[96]; } GiProfile2;

static GiProfile describe(const Profile *p)
{
    return (GiProfile){p->id, 0, p->slices, p->max, p->sms, p->ce, p->dec, 0, p->jpeg, p->ofa, p->mib};
}

static void describe_2(const Profile *p, GiProfile2 *out)
{
    *out = (GiProfile2){out->version, p->id, 0, p->slices, p->max, p->sms, p->ce, p->dec, 0, p->jpeg, p->ofa, p->mib, ""};
    snprintf(out->name, sizeof out->name, "MIG %s", p->name);
}

static int by_constant(unsigned constant, Profile *out)
{
    for (size_t each = 0; each < PROFILES; each++)
        if (!profile_of(IDS[each], out) && out->constant == constant) return OK;
    return E_UNSUPPORTED;
}

int nvmlDeviceGetGpuInstanceProfileInfo(Handle *handle, unsigned constant, GiProfile *out)
{
    int gpu, failure = mig_gpu(handle, &gpu);
    Profile profile;
    if (!failure) failure = by_constant(constant, &profile);
    if (!failure) *out = describe(&profile);
    return failure;
}

int nvmlDeviceGetGpuInstanceProfileInfoV(Handle *handle, unsigned constant, GiProfile2 *out)
{
    int gpu, failure = mig_gpu(handle, &gpu);
    Profile profile;
    if (!failure) failure = by_constant(constant, &profile);
    if (!failure) describe_2(&profile, out);
    return failure;
}

int nvmlDeviceGetGpuInstanceProfileInfoByIdV(Handle *handle, unsigned id, GiProfile2 *out)
{
    int gpu, failure = mig_gpu(handle, &gpu);
    Profile profile;
    if (!failure) failure = profile_of(id, &profile);
    if (!failure) describe_2(&profile, out);
    return failure;
}

int nvmlDeviceGetGpuInstanceRemainingCapacity(Handle *handle, unsigned id, unsigned *out)
{
    int gpu, failure = mig_gpu(handle, &gpu);
    Profile profile;
    if (!failure) failure = profile_of(id, &profile);
    if (!failure) *out = remaining(gpu, &profile);
    return failure;
}

typedef struct { unsigned start, size; } Placement;

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(Handle *handle, unsigned id, Placement *out, unsigned *count)
{
    int gpu, failure = mig_gpu(handle, &gpu);
    Profile profile;
    if (!failure) failure = profile_of(id, &profile);
    if (failure) return failure;
    unsigned limit = out ? *count : 0, found = 0;
    for (unsigned start = 0; start < 8; start++)
        for (unsigned each = 0; each < profile.start_count; each++)
            if (profile.starts[each] == start && found++ < limit) out[found - 1] = (Placement){start, profile.memory_slices};
    *count = found;
    return !out || found <= limit ? OK : E_SIZE;
}
int nvmlDeviceGetGpuInstancePossiblePlacements(Handle *h, unsigned id, Placement *o, unsigned *n)
{
    return nvmlDeviceGetGpuInstancePossiblePlacements_v2(h, id, o, n);
}

static int create_gi(int gpu, const Profile *profile, const Placement *wanted, int *gi)
{
    unsigned taken = occupied(gpu);
    char text[48];
    if (in_use(gpu, profile->id) >= profile->max) return E_RESOURCES;
    for (unsigned each = 0; each < profile->start_count; each++) {
        unsigned start = profile->starts[each], size = profile->memory_slices;
        if (taken & (((1u << size) - 1) << start) || (wanted && wanted->start != start)) continue;
        *gi = gi_id(start, size);
        snprintf(text, sizeof text, "%u:%u:%u", profile->id, start, size);
        sim_put(text, "gpu%d.gi%d", gpu, *gi);
        return OK;
    }
    return E_RESOURCES;
}

int nvmlDeviceCreateGpuInstanceWithPlacement(Handle *handle, unsigned id, const Placement *wanted, Handle **out)
{
    int gpu, gi = 0, failure = mig_gpu(handle, &gpu);
    Profile profile;
    if (!failure && profile_of(id, &profile)) failure = E_ARG;
    if (!failure) failure = sim_begin();
    if (failure) return failure;
    failure = sim_end(create_gi(gpu, &profile, wanted, &gi));
    if (!failure) *out = sim_handle(KIND_GI, gpu, gi, 0);
    return failure;
}

int nvmlDeviceCreateGpuInstance(Handle *handle, unsigned id, Handle **out)
{
    return nvmlDeviceCreateGpuInstanceWithPlacement(handle, id, NULL, out);
}

static int live_gi(const Handle *handle, Place *place)
{
    int failure = sim_ready();
    if (failure) return failure;
    if (!handle || handle->kind != KIND_GI) return E_ARG;
    if (sim_gpu_value(handle->gpu, "lost", 0)) return E_LOST;
    return gi_place(handle->gpu, handle->gi, place) ? OK : E_NOT_FOUND;
}

int nvmlGpuInstanceDestroy(Handle *handle)
{
    Place place;
    int failure = live_gi(handle, &place);
    if (!failure) failure = sim_begin();
    if (failure) return failure;
    if (ci_count(handle->gpu, handle->gi)) return sim_end(E_IN_USE);
    sim_put(NULL, "gpu%d.gi%d", handle->gpu, handle->gi);
    return sim_end(OK);
}

int nvmlDeviceGetGpuInstances(Handle *handle, unsigned id, Handle **out, unsigned *count)
{
    int gpu, failure = mig_gpu(handle, &gpu);
    Place place;
    if (failure) return failure;
    *count = 0;
    for (int gi = 0; gi < MAX_GI; gi++)
        if (gi_place(gpu, gi, &place) && place.profile == id) out[(*count)++] = sim_handle(KIND_GI, gpu, gi, 0);
    return OK;
}

int nvmlDeviceGetGpuInstanceById(Handle *handle, unsigned id, Handle **out)
{
    int gpu, failure = mig_gpu(handle, &gpu);
    Place place;
    if (failure) return failure;
    if (id >= MAX_GI || !gi_place(gpu, (int)id, &place)) return E_NOT_FOUND;
    *out = sim_handle(KIND_GI, gpu, (int)id, 0);
    return OK;
}

typedef struct { Handle *device; unsigned id, profile; Placement placement; } GiInfo;

int nvmlGpuInstanceGetInfo(Handle *handle, GiInfo *out)
{
    Place place;
    int failure = live_gi(handle, &place);
    if (failure) return failure;
    *out = (GiInfo){sim_handle(KIND_GPU, handle->gpu, 0, 0), (unsigned)handle->gi, place.profile, {place.start, place.size}};
    return OK;
}

/* Compute profile ids equal their constants: 1c 0, 2c 1, 3c 2, 4c 3, 7c 4. */
static unsigned ci_slices(unsigned id) { return id < 4 ? id + 1 : id == 4 ? 7 : 0; }

static unsigned ci_taken(int gpu, int gi)
{
    unsigned mask = 0;
    Place place;
    for (int ci = 0; ci < MAX_CI; ci++)
        if (ci_place(gpu, gi, ci, &place)) mask |= ((1u << place.size) - 1) << place.start;
    return mask;
}

static unsigned ci_remaining(int gpu, int gi, unsigned slices, unsigned want)
{
    unsigned taken = ci_taken(gpu, gi), fit = 0, mask = (1u << want) - 1;
    for (unsigned start = 0; start + want <= slices; start++)
        if (!(taken & mask << start)) { fit++; taken |= mask << start; }
    return fit;
}

typedef struct { unsigned id, slices, instances, sms, ce, dec, enc, jpeg, ofa; } CiProfile;
typedef struct { unsigned version; CiProfile info; char name[96]; } CiProfile2;

static int describe_ci(Handle *handle, unsigned constant, unsigned engine, CiProfile *out, char *name, size_t size)
{
    Place place;
    Profile gi;
    int failure = live_gi(handle, &place);
    if (!failure) failure = profile_of(place.profile, &gi);
    if (failure) return failure;
    unsigned want = ci_slices(constant);
    if (!want || want > gi.slices || engine) return E_UNSUPPORTED;
    *out = (CiProfile){constant, want, gi.slices / want, 14 * want, gi.ce, gi.dec, 0, gi.jpeg, gi.ofa};
    if (want == gi.slices) snprintf(name, size, "MIG %s", gi.name);
    else snprintf(name, size, "MIG %uc.%s", want, gi.name);
    return OK;
}

int nvmlGpuInstanceGetComputeInstanceProfileInfo(Handle *h, unsigned constant, unsigned engine, CiProfile *out)
{
    char name[96];
    return describe_ci(h, constant, engine, out, name, sizeof name);
}

int nvmlGpuInstanceGetComputeInstanceProfileInfoV(Handle *h, unsigned constant, unsigned engine, CiProfile2 *out)
{
    return describe_ci(h, constant, engine, &out->info, out->name, sizeof out->name);
}

int nvmlGpuInstanceGetComputeInstanceRemainingCapacity(Handle *handle, unsigned id, unsigned *out)
{
    CiProfile info;
    Place place;
    Profile gi;
    char name[96];
    int failure = describe_ci(handle, id, 0, &info, name, sizeof name);
    if (failure || live_gi(handle, &place) || profile_of(place.profile, &gi)) return failure ? failure : E_NOT_FOUND;
    *out = ci_remaining(handle->gpu, handle->gi, gi.slices, info.slices);
    return OK;
}

static u64 mixed(const char *text)
{
    u64 hash = 14695981039346656037ull;     /* FNV-1a, 64 bit */
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211ull;
    return hash ^ hash >> 29;
}

/* The same board, place and profile always give the same UUID, as the driver's do. */
static void mig_uuid(int gpu, int gi, int ci, const Place *place, char *out, size_t size)
{
    char own[96] = "", seed[200];
    sim_gpu_text(gpu, "uuid", own, sizeof own);
    snprintf(seed, sizeof seed, "%s/%d/%d/%u:%u", own, gi, ci, place->profile, place->start);
    u64 high = mixed(seed);
    strcat(seed, "/low");
    u64 low = mixed(seed);
    snprintf(out, size, "MIG-%08llx-%04llx-5%03llx-%04llx-%012llx", high >> 32, high >> 16 & 0xffff, high & 0xfff,
             (low >> 48 & 0x3fff) | 0x8000, low & 0xffffffffffffull);
}

static int create_ci(int gpu, int gi, unsigned slices, unsigned id, int *ci)
{
    unsigned want = ci_slices(id), taken = ci_taken(gpu, gi), mask = (1u << want) - 1, start = 0;
    Place place, unused;
    char text[48], uuid[64];
    while (start + want <= slices && taken & mask << start) start++;
    if (start + want > slices) return E_RESOURCES;
    for (*ci = 0; ci_place(gpu, gi, *ci, &unused);) ++*ci;
    place = (Place){id, start, want};
    snprintf(text, sizeof text, "%u:%u:%u", id, start, want);
    mig_uuid(gpu, gi, *ci, &place, uuid, sizeof uuid);
    sim_put(text, "gpu%d.gi%d.ci%d", gpu, gi, *ci);
    sim_put(uuid, "gpu%d.gi%d.ci%d.uuid", gpu, gi, *ci);
    return OK;
}

int nvmlGpuInstanceCreateComputeInstance(Handle *handle, unsigned id, Handle **out)
{
    Place place;
    Profile gi;
    int ci = 0, failure = live_gi(handle, &place);
    if (!failure) failure = profile_of(place.profile, &gi);
    if (!failure && (!ci_slices(id) || ci_slices(id) > gi.slices)) failure = E_ARG;
    if (!failure) failure = sim_begin();
    if (failure) return failure;
    failure = sim_end(create_ci(handle->gpu, handle->gi, gi.slices, id, &ci));
    if (!failure) *out = sim_handle(KIND_CI, handle->gpu, handle->gi, ci);
    return failure;
}

static int live_ci(const Handle *handle, Place *place)
{
    int failure = sim_ready();
    if (failure) return failure;
    if (!handle || handle->kind != KIND_CI) return E_ARG;
    return ci_place(handle->gpu, handle->gi, handle->ci, place) ? OK : E_NOT_FOUND;
}

int nvmlComputeInstanceDestroy(Handle *handle)
{
    Place place;
    char clients[1024] = "";
    int failure = live_ci(handle, &place);
    if (!failure) failure = sim_begin();
    if (failure) return failure;
    sim_gpu_text(handle->gpu, "clients", clients, sizeof clients);
    if (clients[0]) return sim_end(E_IN_USE);
    sim_put(NULL, "gpu%d.gi%d.ci%d", handle->gpu, handle->gi, handle->ci);
    sim_put(NULL, "gpu%d.gi%d.ci%d.uuid", handle->gpu, handle->gi, handle->ci);
    return sim_end(OK);
}

int nvmlGpuInstanceGetComputeInstances(Handle *handle, unsigned id, Handle **out, unsigned *count)
{
    Place place;
    int failure = live_gi(handle, &place);
    if (failure) return failure;
    *count = 0;
    for (int ci = 0; ci < MAX_CI; ci++)
        if (ci_place(handle->gpu, handle->gi, ci, &place) && place.profile == id)
            out[(*count)++] = sim_handle(KIND_CI, handle->gpu, handle->gi, ci);
    return OK;
}

int nvmlGpuInstanceGetComputeInstanceById(Handle *handle, unsigned id, Handle **out)
{
    Place place;
    int failure = live_gi(handle, &place);
    if (failure) return failure;
    if (id >= MAX_CI || !ci_place(handle->gpu, handle->gi, (int)id, &place)) return E_NOT_FOUND;
    *out = sim_handle(KIND_CI, handle->gpu, handle->gi, (int)id);
    return OK;
}

typedef struct { Handle *device, *gi; unsigned id, profile; Placement placement; } CiInfo;

int nvmlComputeInstanceGetInfo_v2(Handle *handle, CiInfo *out)
{
    Place place;
    int failure = live_ci(handle, &place);
    if (failure) return failure;
    *out = (CiInfo){sim_handle(KIND_GPU, handle->gpu, 0, 0), sim_handle(KIND_GI, handle->gpu, handle->gi, 0),
                    (unsigned)handle->ci, place.profile, {place.start, place.size}};
    return OK;
}

int nvmlDeviceIsMigDeviceHandle(Handle *handle, unsigned *out)
{
    int failure = sim_ready();
    if (failure || !handle) return failure ? failure : E_ARG;
    *out = handle->kind == KIND_MIG;
    return OK;
}

static int live_mig(const Handle *handle, Place *gi, Place *ci)
{
    int failure = sim_ready();
    if (failure) return failure;
    if (!handle || handle->kind != KIND_MIG) return E_ARG;
    if (!gi_place(handle->gpu, handle->gi, gi)) return E_NOT_FOUND;
    return ci_place(handle->gpu, handle->gi, handle->ci, ci) ? OK : E_NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(Handle *handle, unsigned *out)
{
    Place gi, ci;
    int failure = live_mig(handle, &gi, &ci);
    if (!failure) *out = (unsigned)handle->gi;
    return failure;
}

int nvmlDeviceGetComputeInstanceId(Handle *handle, unsigned *out)
{
    Place gi, ci;
    int failure = live_mig(handle, &gi, &ci);
    if (!failure) *out = (unsigned)handle->ci;
    return failure;
}

int nvmlDeviceGetMaxMigDeviceCount(Handle *handle, unsigned *out)
{
    DEVICE(handle)
    *out = (unsigned)sim_gpu_value(gpu, "mig_devices_max", 0);
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Handle *handle, unsigned index, Handle **out)
{
    int gpu, failure = mig_gpu(handle, &gpu);
    Place place;
    if (failure) return failure;
    for (int gi = 0; gi < MAX_GI; gi++)
        for (int ci = 0; ci < MAX_CI; ci++)
            if (ci_place(gpu, gi, ci, &place) && index-- == 0) {
                *out = sim_handle(KIND_MIG, gpu, gi, ci);
                return OK;
            }
    return E_NOT_FOUND;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Handle *handle, Handle **out)
{
    Place gi, ci;
    int failure = live_mig(handle, &gi, &ci);
    if (!failure) *out = sim_handle(KIND_GPU, handle->gpu, 0, 0);
    return failure;
}

int sim_mig_memory_mib(const Handle *handle, u64 *mib)
{
    Place gi, ci;
    Profile profile;
    int failure = live_mig(handle, &gi, &ci);
    if (!failure) failure = profile_of(gi.profile, &profile);
    if (!failure) *mib = profile.mib;
    return failure;
}

int sim_mig_name(const Handle *handle, char *out, size_t size)
{
    Place gi, ci;
    Profile profile;
    char board[96];
    int failure = live_mig(handle, &gi, &ci);
    if (!failure) failure = profile_of(gi.profile, &profile);
    if (!failure) failure = sim_gpu_text(handle->gpu, "name", board, sizeof board);
    if (failure) return failure;
    if (ci.size == profile.slices) snprintf(out, size, "%s MIG %s", board, profile.name);
    else snprintf(out, size, "%s MIG %uc.%s", board, ci.size, profile.name);
    return OK;
}

typedef struct { unsigned sms, ce, dec, enc, jpeg, ofa, gi_slices, ci_slices; u64 mib; } Attributes;

int nvmlDeviceGetAttributes_v2(Handle *handle, Attributes *out)
{
    Place gi, ci;
    Profile p;
    int failure = live_mig(handle, &gi, &ci);
    if (!failure) failure = profile_of(gi.profile, &p);
    if (!failure) *out = (Attributes){14 * ci.size, p.ce, p.dec, 0, p.jpeg, p.ofa, p.slices, ci.size, p.mib};
    return failure;
}
int nvmlDeviceGetAttributes(Handle *handle, Attributes *out) { return nvmlDeviceGetAttributes_v2(handle, out); }
