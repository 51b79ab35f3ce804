/* A driver library for machines without a GPU: the calls of libnvidia-ml.so.1 that trainmeter makes, with its struct layouts,
 * over devices described in a text file (FAKE_NVML_MACHINE). See README.md beside this file for the format.
 * Time is the real clock, or a virtual one once fake_advance() was called. Counters integrate their values over that time. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15, ARGUMENT_VERSION_MISMATCH = 25 };
enum { MAX_DEVICES = 32, MAX_KEYS = 96, MAX_ERRORS = 48, BUFFER = 120, MAX_XIDS = 64 };
#define SAMPLE_PERIOD 0.1

typedef struct { char name[48]; double value, integral; } Key;
typedef struct { char function[64]; int code; double from, until; } Error;
typedef struct { double at[BUFFER], value[BUFFER]; int count; } Buffer;
typedef struct Device {
    char name[96], uuid[96], bus[32];
    struct Device *parent;          /* set for a MIG slice */
    Key keys[MAX_KEYS]; int key_count;
    Error errors[MAX_ERRORS]; int error_count;
    double updated, next_sample;
    Buffer util, clock;
} Device;
typedef struct { uint32_t magic, generation; Device *device; } Handle;
typedef struct { uint32_t magic; int taken; Device *device; double at; double integral[MAX_KEYS]; } Sample;
typedef struct { uint32_t magic; Device *watched[MAX_DEVICES]; int count; } Events;

static Device devices[MAX_DEVICES];
static Handle handles[64][MAX_DEVICES];   /* per generation: a handle of an earlier nvmlInit is stale */
static int device_count, generation, references, open_samples, misuse, calls, loaded;
static double down_from = -1, down_until = -1, virtual_now = -1, fault_rate;
static int dead;                          /* the driver went away since the last nvmlInit */
static uint64_t rng = 88172645463325252ULL;
static char driver[80] = "580.82.07";
static int cuda = 13000;
static struct { Device *device; uint64_t code; } xids[MAX_XIDS];
static int xid_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static pthread_t fault_thread; static int fault_thread_only;
static const int FAULTS[] = {1, 2, 3, 4, 6, 7, 9, 10, 11, 13, 15, 16, 18, 20, 21, 23, 25, 27, 28, 77, 999};

static double now(void) {
    if (virtual_now >= 0) return virtual_now;
    struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
    static double start = -1; double s = t.tv_sec + t.tv_nsec / 1e9;
    if (start < 0) start = s;
    return s - start;
}
static double rnd(void) { rng ^= rng << 13; rng ^= rng >> 7; rng ^= rng << 17; return (rng >> 11) / 9007199254740992.0; }

static Key *key(Device *d, const char *name) {
    for (int i = 0; i < d->key_count; i++) if (!strcmp(d->keys[i].name, name)) return &d->keys[i];
    return NULL;
}
static void set_key(Device *d, const char *name, double value) {
    Key *k = key(d, name);
    if (!k && d->key_count < MAX_KEYS) { k = &d->keys[d->key_count++]; snprintf(k->name, sizeof k->name, "%s", name); k->integral = 0; }
    if (k) k->value = value;
}
static void record(Buffer *b, double at, double value) {
    if (b->count == BUFFER) { memmove(b->at, b->at + 1, sizeof b->at - sizeof b->at[0]); memmove(b->value, b->value + 1, sizeof b->value - sizeof b->value[0]); b->count--; }
    b->at[b->count] = at; b->value[b->count++] = value;
}
static void update(Device *d) {
    double t = now(), dt = t - d->updated;
    if (dt <= 0) return;
    for (int i = 0; i < d->key_count; i++) d->keys[i].integral += d->keys[i].value * dt;
    Key *util = key(d, "util_buffer"), *clk = key(d, "clock_buffer");
    for (int n = 0; d->next_sample <= t && n < BUFFER; n++, d->next_sample += SAMPLE_PERIOD) {
        if (util) record(&d->util, d->next_sample, util->value);
        if (clk) record(&d->clock, d->next_sample, clk->value);
    }
    if (d->next_sample <= t) d->next_sample = t + SAMPLE_PERIOD;
    d->updated = t;
}
static void load(void) {
    if (loaded) return;
    loaded = 1;
    const char *path = getenv("FAKE_NVML_MACHINE");
    FILE *f = path ? fopen(path, "r") : NULL;
    char line[256], k[64], v[160]; Device *d = NULL, *gpu = NULL;
    while (f && fgets(line, sizeof line, f)) {
        char *hash = strchr(line, '#'); if (hash) *hash = 0;
        int n = sscanf(line, "%63s %159[^\n]", k, v);
        if (n < 1) continue;
        if (n == 1) v[0] = 0;
        for (int e = (int)strlen(v) - 1; e >= 0 && (v[e] == ' ' || v[e] == '\r'); e--) v[e] = 0;
        if (!strcmp(k, "gpu") || !strcmp(k, "mig")) {
            if (device_count == MAX_DEVICES) break;
            d = &devices[device_count++];
            if (*k == 'g') gpu = d; else d->parent = gpu;
        }
        else if (!strcmp(k, "driver")) snprintf(driver, sizeof driver, "%s", v);
        else if (!strcmp(k, "cuda")) cuda = atoi(v);
        else if (!strcmp(k, "faults")) fault_rate = atof(v);
        else if (!strcmp(k, "restart")) sscanf(v, "%lf %lf", &down_from, &down_until);
        else if (!d) continue;
        else if (!strcmp(k, "name")) snprintf(d->name, sizeof d->name, "%s", v);
        else if (!strcmp(k, "uuid")) snprintf(d->uuid, sizeof d->uuid, "%s", v);
        else if (!strcmp(k, "bus")) snprintf(d->bus, sizeof d->bus, "%s", v);
        else if (!strcmp(k, "error") && d->error_count < MAX_ERRORS) {
            Error *e = &d->errors[d->error_count++]; e->from = 0; e->until = 1e300;
            sscanf(v, "%63s %d %lf %lf", e->function, &e->code, &e->from, &e->until);
        }
        else set_key(d, k, atof(v));
    }
    if (f) fclose(f);
}
/* What every call answers before it looks at its arguments. */
static int common(void) {
    calls++;
    double t = now();
    if (down_from >= 0 && t >= down_from && t < down_until) dead = 1;
    if (references == 0 || dead) return UNINITIALIZED;
    if (fault_rate > 0 && !(fault_thread_only && !pthread_equal(pthread_self(), fault_thread)) && rnd() < fault_rate)
        return FAULTS[(int)(rnd() * (sizeof FAULTS / sizeof *FAULTS))];
    return OK;
}
static int device_of(void *handle, const char *function, Device **out) {
    int r = common();
    if (r) return r;
    Handle *h = handle;
    if (!h) return INVALID_ARGUMENT;
    if (h->magic != 0x4e564d4c || (int)h->generation != generation) { misuse++; return UNINITIALIZED; }
    Device *d = h->device;
    for (int i = 0; i < d->error_count; i++) {
        Error *e = &d->errors[i];
        if ((!strcmp(e->function, function) || !strcmp(e->function, "*")) && now() >= e->from && now() < e->until) return e->code;
    }
    update(d);
    *out = d;
    return OK;
}
static void *handle_of(Device *d) {
    Handle *h = &handles[generation % 64][d - devices];
    h->magic = 0x4e564d4c; h->generation = (uint32_t)generation; h->device = d;
    return h;
}
#define LOCKED(type, name, args, ...) type name args { pthread_mutex_lock(&lock); int r = OK; { __VA_ARGS__ } pthread_mutex_unlock(&lock); return r; }
#define DEVICE(handle) Device *d = NULL; r = device_of(handle, __func__, &d); if (!r)
static int number(Device *d, const char *name, double *out) { Key *k = key(d, name); if (!k) return NOT_SUPPORTED; *out = k->value; return OK; }

/* ---- control, for tests in the same process ---- */
void fake_advance(double seconds) { pthread_mutex_lock(&lock); load(); if (virtual_now < 0) virtual_now = 0; for (int i = 0; i < device_count; i++) update(&devices[i]); virtual_now += seconds; for (int i = 0; i < device_count; i++) update(&devices[i]); pthread_mutex_unlock(&lock); }
void fake_set(int index, const char *name, double value) { pthread_mutex_lock(&lock); load(); update(&devices[index]); set_key(&devices[index], name, value); pthread_mutex_unlock(&lock); }
void fake_reset_counters(int index) { pthread_mutex_lock(&lock); update(&devices[index]); for (int i = 0; i < devices[index].key_count; i++) devices[index].keys[i].integral = 0; pthread_mutex_unlock(&lock); }
void fake_error(int index, const char *function, int code) { pthread_mutex_lock(&lock); Device *d = &devices[index]; int i = 0; while (i < d->error_count && strcmp(d->errors[i].function, function)) i++; if (i < MAX_ERRORS) { if (i == d->error_count) d->error_count++; Error *e = &d->errors[i]; snprintf(e->function, sizeof e->function, "%s", function); e->code = code; e->from = 0; e->until = code ? 1e300 : -1; } pthread_mutex_unlock(&lock); }
void fake_faults(double rate, uint64_t seed) { pthread_mutex_lock(&lock); fault_rate = rate; rng = seed * 2685821657736338717ULL + 88172645463325252ULL; fault_thread = pthread_self(); fault_thread_only = 1; pthread_mutex_unlock(&lock); }
void fake_driver_down(double seconds) { pthread_mutex_lock(&lock); down_from = now(); down_until = down_from + seconds; dead = 1; pthread_mutex_unlock(&lock); }
void fake_xid(int index, uint64_t code) { pthread_mutex_lock(&lock); if (xid_count < MAX_XIDS) { xids[xid_count].device = &devices[index]; xids[xid_count++].code = code; } pthread_cond_broadcast(&arrived); pthread_mutex_unlock(&lock); }
int fake_open_samples(void) { return open_samples; }
int fake_misuse(void) { return misuse; }
int fake_calls(void) { return calls; }
int fake_references(void) { return references; }

/* ---- library ---- */
LOCKED(int, nvmlInitWithFlags, (unsigned flags), {
    (void)flags; load(); calls++;
    double t = now();
    if (down_from >= 0 && t >= down_from && t < down_until) r = DRIVER_NOT_LOADED;
    else {
        if (dead) { references = 0; for (int i = 0; i < device_count; i++) for (int k = 0; k < devices[i].key_count; k++) devices[i].keys[k].integral = 0; }
        dead = 0;
        if (references++ == 0) generation++;
    }
})
LOCKED(int, nvmlShutdown, (void), { calls++; if (references == 0 || dead) r = UNINITIALIZED; else references--; if (dead) references = 0; })
const char *nvmlErrorString(int code) { static char text[32]; snprintf(text, sizeof text, "error %d", code); return text; }
LOCKED(int, nvmlSystemGetDriverVersion, (char *out, unsigned length), { r = common(); if (!r) snprintf(out, length, "%s", driver); })
LOCKED(int, nvmlSystemGetCudaDriverVersion_v2, (int *out), { r = common(); if (!r) *out = cuda; })

/* ---- inventory ---- */
LOCKED(int, nvmlDeviceGetCount_v2, (unsigned *out), { r = common(); if (!r) { *out = 0; for (int i = 0; i < device_count; i++) *out += !devices[i].parent; } })
LOCKED(int, nvmlDeviceGetHandleByIndex_v2, (unsigned index, void **out), {
    r = common();
    if (!r) { r = NOT_FOUND; for (int i = 0; i < device_count; i++) if (!devices[i].parent && index-- == 0) { Device *d; r = device_of(handle_of(&devices[i]), __func__, &d); if (!r) *out = handle_of(d); break; } }
})
LOCKED(int, nvmlDeviceGetHandleByUUID, (const char *uuid, void **out), {
    r = common();
    if (!r) { r = NOT_FOUND; for (int i = 0; i < device_count; i++) if (!strcmp(devices[i].uuid, uuid)) { Device *d; r = device_of(handle_of(&devices[i]), __func__, &d); if (!r) *out = handle_of(d); break; } }
})
LOCKED(int, nvmlDeviceGetUUID, (void *h, char *out, unsigned length), { DEVICE(h) snprintf(out, length, "%s", d->uuid); })
LOCKED(int, nvmlDeviceGetName, (void *h, char *out, unsigned length), { DEVICE(h) snprintf(out, length, "%s", d->name); })
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
LOCKED(int, nvmlDeviceGetPciInfo_v3, (void *h, Pci *out), { DEVICE(h) { memset(out, 0, sizeof *out); snprintf(out->bus_id, sizeof out->bus_id, "%s", d->bus); } })
LOCKED(int, nvmlDeviceGetCudaComputeCapability, (void *h, int *major, int *minor), { DEVICE(h) { double v = 0; r = number(d->parent ? d->parent : d, "capability", &v); if (!r) { *major = (int)v; *minor = (int)lround((v - *major) * 10); } } })
LOCKED(int, nvmlDeviceGetNumGpuCores, (void *h, unsigned *out), { DEVICE(h) { double v; r = number(d, "cores", &v); if (!r) *out = (unsigned)v; } })
LOCKED(int, nvmlDeviceGetMigMode, (void *h, unsigned *current, unsigned *pending), { DEVICE(h) { double v; r = number(d, "mig_mode", &v); if (!r) *current = *pending = (unsigned)v; } })
LOCKED(int, nvmlDeviceGetMaxMigDeviceCount, (void *h, unsigned *out), { DEVICE(h) *out = 7; })
LOCKED(int, nvmlDeviceGetMigDeviceHandleByIndex, (void *h, unsigned index, void **out), {
    DEVICE(h) { r = NOT_FOUND; for (int i = 0; i < device_count; i++) { double v; if (devices[i].parent == d && !number(&devices[i], "position", &v) && (unsigned)v == index) { *out = handle_of(&devices[i]); r = OK; } } }
})
LOCKED(int, nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (void *h, void **out), { DEVICE(h) { if (d->parent) *out = handle_of(d->parent); else r = INVALID_ARGUMENT; } })
LOCKED(int, nvmlDeviceGetGpuInstanceId, (void *h, unsigned *out), { DEVICE(h) { double v; r = number(d, "gpu_instance", &v); if (!r) *out = (unsigned)v; } })
LOCKED(int, nvmlDeviceGetComputeInstanceId, (void *h, unsigned *out), { DEVICE(h) { double v; r = number(d, "compute_instance", &v); if (!r) *out = (unsigned)v; } })
typedef struct { unsigned sms, copy, dec, enc, jpeg, ofa, gpu_slices, compute_slices; unsigned long long memory_mb; } Attributes;
LOCKED(int, nvmlDeviceGetAttributes_v2, (void *h, Attributes *out), {
    DEVICE(h) { double v; r = number(d, "sms", &v); if (!r) { memset(out, 0, sizeof *out); out->sms = (unsigned)v; if (!number(d, "gpu_slices", &v)) out->gpu_slices = out->compute_slices = (unsigned)v; if (!number(d, "compute_slices", &v)) out->compute_slices = (unsigned)v; if (!number(d, "mem_total", &v)) out->memory_mb = (unsigned long long)(v / 1048576); } }
})

/* ---- counters ---- */
typedef struct { unsigned gpu, memory; } Rates;
LOCKED(int, nvmlDeviceGetUtilizationRates, (void *h, Rates *out), { DEVICE(h) { double v; r = number(d, "util", &v); if (!r) { out->gpu = (unsigned)v; out->memory = 0; } } })
#define SIMPLE(function, type, name, factor) LOCKED(int, function, (void *h, type *out), { DEVICE(h) { double v; r = number(d, name, &v); if (!r) *out = (type)llround(v * (factor)); } })
SIMPLE(nvmlDeviceGetPowerUsage, unsigned, "power", 1000)
SIMPLE(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power_limit", 1000)
SIMPLE(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, "event_bits", 1)
SIMPLE(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "event_bits", 1)
LOCKED(int, nvmlDeviceGetTotalEnergyConsumption, (void *h, unsigned long long *out), { DEVICE(h) { double v; r = number(d, "has_energy", &v); Key *k = key(d, "power"); if (!r) *out = k ? (unsigned long long)(k->integral * 1000) : 0; } })
LOCKED(int, nvmlDeviceGetClockInfo, (void *h, unsigned kind, unsigned *out), { DEVICE(h) { double v; r = number(d, kind == 1 ? "sm_clock" : "mem_clock", &v); if (!r) *out = (unsigned)v; } })
LOCKED(int, nvmlDeviceGetMaxClockInfo, (void *h, unsigned kind, unsigned *out), { DEVICE(h) { double v; r = number(d, kind == 1 ? "max_sm_clock" : "max_mem_clock", &v); if (!r) *out = (unsigned)v; } })
LOCKED(int, nvmlDeviceGetTemperature, (void *h, unsigned sensor, unsigned *out), { (void)sensor; DEVICE(h) { double v; r = number(d, "temp", &v); if (!r) *out = (unsigned)v; } })
typedef struct { unsigned version, sensor; int temperature; } Temperature;
LOCKED(int, nvmlDeviceGetTemperatureV, (void *h, Temperature *out), { DEVICE(h) { double v; r = number(d, "temp", &v); if (!r) out->temperature = (int)v; } })
typedef struct { unsigned long long total, free, used; } Memory1;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
LOCKED(int, nvmlDeviceGetMemoryInfo, (void *h, Memory1 *out), {
    DEVICE(h) { double total, used, reserved = 0; r = number(d, "mem_total", &total); if (!r) r = number(d, "mem_used", &used); number(d, "mem_reserved", &reserved); if (!r) { out->total = total; out->used = used + reserved; out->free = total - used - reserved; } }
})
LOCKED(int, nvmlDeviceGetMemoryInfo_v2, (void *h, Memory2 *out), {
    DEVICE(h) {
        double total, used, reserved = 0;
        if (out->version != 0x02000028) { misuse++; r = ARGUMENT_VERSION_MISMATCH; }
        if (!r) r = number(d, "mem_total", &total);
        if (!r) r = number(d, "mem_used", &used);
        number(d, "mem_reserved", &reserved);
        if (!r) { out->total = total; out->used = used; out->reserved = reserved; out->free = total - used - reserved; }
    }
})
typedef struct { uint32_t field, scope; int64_t timestamp, latency; uint32_t type, result; union { double d; uint32_t u; uint64_t l; int64_t s; } value; } Field;
LOCKED(int, nvmlDeviceGetFieldValues, (void *h, int count, Field *values), {
    DEVICE(h) for (int i = 0; i < count; i++) {
        Field *f = &values[i]; double v; Key *k; char name[24];
        f->result = NOT_SUPPORTED; f->type = 3; f->value.l = 0xdeadbeef;   /* what is refused must not be read */
        snprintf(name, sizeof name, "field_%u", f->field);
        if (f->field >= 74 && f->field <= 76) { k = key(d, name); if (k) { f->result = OK; f->value.l = (uint64_t)(k->integral / 100 * 1e9); } }
        else if (!number(d, name, &v)) { f->result = OK; if (f->field == 82) { f->type = 1; f->value.u = (uint32_t)v; } else f->value.l = (uint64_t)v; }
    }
})
typedef struct { unsigned long long at; union { double d; unsigned u; unsigned long long l; } value; } Stamped;
LOCKED(int, nvmlDeviceGetSamples, (void *h, unsigned kind, unsigned long long since, unsigned *type, unsigned *count, Stamped *out), {
    DEVICE(h) {
        Buffer *b = kind == 1 && key(d, "util_buffer") ? &d->util : kind == 5 && key(d, "clock_buffer") ? &d->clock : NULL;
        if (!b) r = NOT_SUPPORTED;
        else if (!out) { *type = 1; *count = BUFFER; }
        else {
            unsigned n = 0;
            for (int i = 0; i < b->count && n < *count; i++) { unsigned long long at = 1000000ULL + (unsigned long long)llround(b->at[i] * 1e6); if (at > since) { out[n].at = at; out[n].value.l = 0; out[n++].value.u = (unsigned)b->value[i]; } }
            *type = 1; *count = n;
            if (!n) r = NOT_FOUND;
        }
    }
})

/* ---- GPM ---- */
typedef struct { unsigned id; unsigned result; double value; char *a, *b, *c; } Metric;
typedef struct { unsigned version, count; Sample *one, *two; Metric metrics[]; } Metrics;
typedef struct { unsigned version, supported; } Support;
LOCKED(int, nvmlGpmQueryDeviceSupport, (void *h, Support *out), { DEVICE(h) { double v = 0; number(d, "gpm", &v); if (out->version != 1) { misuse++; r = ARGUMENT_VERSION_MISMATCH; } else out->supported = v > 0; } })
LOCKED(int, nvmlGpmSampleAlloc, (Sample **out), { r = common(); if (!r) { *out = calloc(1, sizeof **out); (*out)->magic = 0x47504d53; open_samples++; } })
LOCKED(int, nvmlGpmSampleFree, (Sample *s), { calls++; if (!s || s->magic != 0x47504d53) { misuse++; r = INVALID_ARGUMENT; } else { s->magic = 0; open_samples--; free(s); } })
static int take(Device *d, Sample *s) {
    if (!s || s->magic != 0x47504d53) { misuse++; return INVALID_ARGUMENT; }
    s->taken = 1; s->device = d; s->at = now();
    for (int i = 0; i < d->key_count; i++) s->integral[i] = d->keys[i].integral;
    return OK;
}
LOCKED(int, nvmlGpmSampleGet, (void *h, Sample *s), { DEVICE(h) { double v = 0; number(d, "gpm", &v); r = v > 0 ? take(d, s) : NOT_SUPPORTED; } })
LOCKED(int, nvmlGpmMigSampleGet, (void *h, unsigned instance, Sample *s), {
    DEVICE(h) { r = INVALID_ARGUMENT; for (int i = 0; i < device_count; i++) { double v; if (devices[i].parent == d && !number(&devices[i], "gpu_instance", &v) && (unsigned)v == instance) { update(&devices[i]); r = take(&devices[i], s); } } }
})
LOCKED(int, nvmlGpmMetricsGet, (Metrics *m), {
    r = common();
    if (!r && m->version != 1) { misuse++; r = ARGUMENT_VERSION_MISMATCH; }
    if (!r && (!m->one || !m->two || m->one->magic != 0x47504d53 || m->two->magic != 0x47504d53 || !m->one->taken || !m->two->taken || m->one->device != m->two->device)) { misuse++; r = INVALID_ARGUMENT; }
    if (!r) {
        Device *d = m->one->device; double v, dt = m->two->at - m->one->at, newest = 98;
        number(d, "gpm_newest", &newest);
        if (dt <= 0) { misuse++; r = INVALID_ARGUMENT; }
        for (unsigned i = 0; !r && i < m->count; i++) if (m->metrics[i].id >= newest && !number(d, "gpm_strict", &v)) r = INVALID_ARGUMENT;
        for (unsigned i = 0; !r && i < m->count; i++) {
            Metric *x = &m->metrics[i]; char name[24];
            snprintf(name, sizeof name, "gpm_%u", x->id);
            Key *k = key(d, name);
            x->result = k ? OK : NOT_SUPPORTED; x->value = -12345; x->a = x->b = x->c = NULL;   /* names may be NULL */
            if (k) x->value = (m->two->integral[k - d->keys] - m->one->integral[k - d->keys]) / dt;
        }
    }
})

/* ---- events ---- */
LOCKED(int, nvmlEventSetCreate, (Events **out), { r = common(); if (!r) { *out = calloc(1, sizeof **out); (*out)->magic = 0x45564e54; } })
LOCKED(int, nvmlEventSetFree, (Events *e), { calls++; if (!e || e->magic != 0x45564e54) { misuse++; r = INVALID_ARGUMENT; } else { e->magic = 0; free(e); } })
LOCKED(int, nvmlDeviceRegisterEvents, (void *h, unsigned long long kinds, Events *e), { DEVICE(h) { double v; if (d->parent) r = INVALID_ARGUMENT; else if (number(d, "no_events", &v) == OK) r = NOT_SUPPORTED; else if (kinds != 8) r = NOT_SUPPORTED; else if (e->count < MAX_DEVICES) e->watched[e->count++] = d; } })
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } Event;
int nvmlEventSetWait_v2(Events *e, Event *out, unsigned timeout_ms) {
    struct timespec until; clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000; until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) { until.tv_sec++; until.tv_nsec -= 1000000000; }
    pthread_mutex_lock(&lock);
    int r = common();
    for (int waiting = 1; !r && waiting;) {
        for (int i = 0; i < xid_count && waiting; i++) for (int w = 0; w < e->count && waiting; w++) if (e->watched[w] == xids[i].device) {
            memset(out, 0, sizeof *out); out->device = handle_of(xids[i].device); out->type = 8; out->data = xids[i].code;
            memmove(&xids[i], &xids[i + 1], sizeof xids[0] * (size_t)(--xid_count - i)); waiting = 0;
        }
        if (waiting && pthread_cond_timedwait(&arrived, &lock, &until)) { r = TIMEOUT; }
    }
    pthread_mutex_unlock(&lock);
    return r;
}
