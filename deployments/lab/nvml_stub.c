/* A stand-in libnvidia-ml.so.1 for machines without a GPU: every NVML call that tasks/gpu/probes/nvml.py makes.
 *
 * What it answers stands in the text file named by FAKE_NVML_STATE, read again at each call (see lab/gpu_state.py for the
 * keys). A process that is named there holds its memory only while /proc/PID exists and is not Z, as with the real driver
 * (recorded: memory is free before the parent reaps). Structs and codes are those of nvml.h 12/13.
 *
 * build: cc -shared -fPIC -O1 -Wall -Wextra -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 nvml_stub.c
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { OK = 0, BAD_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SHORT = 7, NO_DRIVER = 9, LOST = 15, UNKNOWN = 999 };
enum { GPUS = 16, PROCS = 64, STEPS = 64 };

typedef struct { unsigned pid; unsigned long long bytes; char kind; unsigned sm; int hidden; } Proc;
typedef struct {
    char uuid[80], name[96], bus[32], mode[16];
    unsigned long long total, reserved, extra, reasons;
    unsigned power, idle_power, power_limit, temperature, pstate, clock, clock_max, mig, compute, memory, remap[4], recovery;
    unsigned long long ecc_uncorrected, ecc_corrected;
    unsigned sm[STEPS]; int steps, latched, procs;
    Proc proc[PROCS];
} Gpu;
typedef struct { char version[80], mode[16]; int cuda, gpus; Gpu gpu[GPUS]; } State;

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } ProcessInfo;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned pid; unsigned long long stamp; unsigned sm, mem, enc, dec; } Sample;
typedef struct { unsigned field, scope; long long stamp, latency; int type, ret; unsigned long long value; } Field;

static unsigned looked[GPUS]; /* how often the utilisation of each GPU was asked: the place in its series */

static int alive(unsigned pid) {
    char path[64], line[512], *end;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    end = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    fclose(f);
    return end && end[2] != 'Z' && end[2] != 'X';
}

static void process(Gpu *g, const char *v) {
    Proc p = {0};
    char kind = 'C', flag[16] = "-";
    if (g->procs == PROCS || sscanf(v, "%u %llu %c %u %15s", &p.pid, &p.bytes, &kind, &p.sm, flag) < 2) return;
    p.kind = kind;
    p.hidden = !strcmp(flag, "hidden");
    if (!strcmp(flag, "foreign") || alive(p.pid)) g->proc[g->procs++] = p;
}

static void gpu_key(Gpu *g, const char *k, char *v) {
    unsigned long long n = strtoull(v, NULL, 0);
    struct { const char *k; unsigned *at; } small[] = {
        {"power_mw", &g->power}, {"idle_power_mw", &g->idle_power}, {"power_limit_mw", &g->power_limit},
        {"temperature", &g->temperature}, {"pstate", &g->pstate}, {"clock", &g->clock}, {"clock_max", &g->clock_max},
        {"mig", &g->mig}, {"compute", &g->compute}, {"memory_percent", &g->memory}, {"recovery", &g->recovery}};
    struct { const char *k; unsigned long long *at; } big[] = {
        {"total", &g->total}, {"reserved", &g->reserved}, {"extra", &g->extra}, {"reasons", &g->reasons},
        {"ecc_uncorrected", &g->ecc_uncorrected}, {"ecc_corrected", &g->ecc_corrected}};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) if (!strcmp(k, small[i].k)) *small[i].at = (unsigned)n;
    for (size_t i = 0; i < sizeof big / sizeof *big; i++) if (!strcmp(k, big[i].k)) *big[i].at = n;
    if (!strcmp(k, "uuid")) snprintf(g->uuid, sizeof g->uuid, "%.79s", v);
    if (!strcmp(k, "name")) snprintf(g->name, sizeof g->name, "%.95s", v);
    if (!strcmp(k, "bus_id")) snprintf(g->bus, sizeof g->bus, "%.31s", v);
    if (!strcmp(k, "mode")) snprintf(g->mode, sizeof g->mode, "%.15s", v);
    if (!strcmp(k, "latched")) g->latched = (int)n;
    if (!strcmp(k, "process")) process(g, v);
    if (!strcmp(k, "remap")) sscanf(v, "%u,%u,%u,%u", g->remap, g->remap + 1, g->remap + 2, g->remap + 3);
    if (!strcmp(k, "sm"))
        for (char *p = strtok(v, ","); p && g->steps < STEPS; p = strtok(NULL, ",")) g->sm[g->steps++] = (unsigned)atoi(p);
}

static State *load(void) {
    static State s;
    char line[512], key[64], value[400];
    memset(&s, 0, sizeof s);
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *f = path ? fopen(path, "r") : NULL;
    if (!f) { strcpy(s.mode, "no-driver"); return &s; }
    Gpu *g = NULL;
    while (fgets(line, sizeof line, f)) {
        if (!strncmp(line, "[gpu", 4) && s.gpus < GPUS) { g = &s.gpu[s.gpus++]; continue; }
        if (line[0] == '#' || sscanf(line, " %63[^= ] = %399[^\n]", key, value) != 2) continue;
        if (g) { gpu_key(g, key, value); continue; }
        if (!strcmp(key, "version")) snprintf(s.version, sizeof s.version, "%.79s", value);
        if (!strcmp(key, "mode")) snprintf(s.mode, sizeof s.mode, "%.15s", value);
        if (!strcmp(key, "cuda")) s.cuda = atoi(value);
    }
    fclose(f);
    while (!strcmp(s.mode, "hang")) pause(); /* a driver that never answers; only SIGKILL ends the caller */
    return &s;
}

static int driver(const State *s) {
    return !strcmp(s->mode, "no-driver") ? NO_DRIVER : !strcmp(s->mode, "unknown") ? UNKNOWN : OK;
}

/* The GPU behind a handle (index + 1), and in *g what it says now. */
static int device(void *handle, Gpu **g) {
    State *s = load();
    size_t i = (size_t)handle;
    if (driver(s)) return driver(s);
    if (i < 1 || i > (size_t)s->gpus) return BAD_ARGUMENT;
    *g = &s->gpu[i - 1];
    return !strcmp((*g)->mode, "lost") ? LOST : !strcmp((*g)->mode, "unknown") ? UNKNOWN : OK;
}

#define DEVICE(h) Gpu *g = NULL; { int ret = device(h, &g); if (ret) return ret; }
#define NUMBER(name, type, value) int name(void *h, type *out) { DEVICE(h) *out = (type)(value); return OK; }

static unsigned long long used(const Gpu *g) {
    unsigned long long sum = g->procs ? g->extra : 0;
    for (int i = 0; i < g->procs; i++) sum += g->proc[i].bytes;
    return sum;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return driver(load()); }
int nvmlInit_v2(void) { return driver(load()); }
int nvmlShutdown(void) { return OK; }

const char *nvmlErrorString(int code) {
    switch (code) {
    case OK: return "Success";
    case BAD_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case SHORT: return "Insufficient Size";
    case NO_DRIVER: return "Driver Not Loaded";
    case LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *out, unsigned n) { State *s = load(); snprintf(out, n, "%s", s->version); return driver(s); }
int nvmlSystemGetCudaDriverVersion(int *out) { State *s = load(); *out = s->cuda; return driver(s); }
int nvmlDeviceGetCount_v2(unsigned *out) { State *s = load(); *out = (unsigned)s->gpus; return driver(s); }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out) {
    Gpu *g;
    *out = (void *)(size_t)(i + 1);
    return device(*out, &g);
}
int nvmlDeviceGetName(void *h, char *out, unsigned n) { DEVICE(h) snprintf(out, n, "%s", g->name); return OK; }
int nvmlDeviceGetUUID(void *h, char *out, unsigned n) { DEVICE(h) snprintf(out, n, "%s", g->uuid); return OK; }
int nvmlDeviceGetPciInfo_v3(void *h, Pci *out) {
    DEVICE(h)
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", g->bus);
    snprintf(out->legacy, sizeof out->legacy, "%.15s", strlen(g->bus) > 4 ? g->bus + 4 : g->bus);
    return OK;
}
int nvmlDeviceGetMemoryInfo(void *h, Memory *out) {
    DEVICE(h)
    out->total = g->total;
    out->used = used(g) + g->reserved;
    out->free = g->total - out->used;
    return OK;
}
int nvmlDeviceGetMemoryInfo_v2(void *h, Memory2 *out) {
    DEVICE(h)
    out->total = g->total;
    out->reserved = g->reserved;
    out->used = used(g);
    out->free = g->total - g->reserved - out->used;
    return OK;
}
int nvmlDeviceGetUtilizationRates(void *h, Utilization *out) {
    DEVICE(h)
    unsigned at = looked[(size_t)h - 1]++;
    int busy = g->steps && (g->procs || g->latched);
    if (g->mig) return NOT_SUPPORTED;
    out->gpu = busy ? g->sm[at % (unsigned)g->steps] : 0;
    out->memory = busy ? g->memory : 0;
    return OK;
}

static int list(void *h, char kind, unsigned *count, ProcessInfo *out) {
    DEVICE(h)
    unsigned n = 0, room = *count;
    for (int i = 0; i < g->procs; i++) {
        if (g->proc[i].kind != kind || g->proc[i].hidden) continue;
        if (out && n < room) out[n] = (ProcessInfo){g->proc[i].pid, g->mig ? ~0ULL : g->proc[i].bytes, ~0u, ~0u};
        n++;
    }
    *count = n;
    return n > (out ? room : 0) ? SHORT : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, ProcessInfo *out) { return list(h, 'C', n, out); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, unsigned *n, ProcessInfo *out) { return list(h, 'G', n, out); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *h, unsigned *n, ProcessInfo *out) { return list(h, 'M', n, out); }

int nvmlDeviceGetProcessUtilization(void *h, Sample *out, unsigned *count, unsigned long long since) {
    DEVICE(h)
    struct timeval now;
    unsigned n = 0;
    gettimeofday(&now, NULL);
    unsigned long long stamp = (unsigned long long)now.tv_sec * 1000000ULL + (unsigned long long)now.tv_usec;
    (void)since;
    for (int i = 0; i < g->procs; i++) {
        if (g->proc[i].hidden) continue;
        if (out && n < *count) out[n] = (Sample){g->proc[i].pid, stamp, g->proc[i].sm, 0, 0, 0};
        n++;
    }
    if (!n) return NOT_FOUND;
    if (!out) { *count = n; return SHORT; }
    *count = n;
    return OK;
}

NUMBER(nvmlDeviceGetPowerUsage, unsigned, g->procs || g->latched ? g->power : g->idle_power)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, g->power_limit)
NUMBER(nvmlDeviceGetPerformanceState, unsigned, g->pstate)
NUMBER(nvmlDeviceGetComputeMode, unsigned, g->compute)
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, g->procs ? g->reasons : g->reasons | 1)
int nvmlDeviceGetTemperature(void *h, int sensor, unsigned *out) { DEVICE(h) (void)sensor; *out = g->temperature; return OK; }
int nvmlDeviceGetClockInfo(void *h, int type, unsigned *out) { DEVICE(h) (void)type; *out = g->clock; return OK; }
int nvmlDeviceGetMaxClockInfo(void *h, int type, unsigned *out) { DEVICE(h) (void)type; *out = g->clock_max; return OK; }
int nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *next) { DEVICE(h) *now = *next = g->mig; return OK; }
int nvmlDeviceGetTotalEccErrors(void *h, int kind, int counter, unsigned long long *out) {
    DEVICE(h)
    (void)counter;
    *out = kind ? g->ecc_uncorrected : g->ecc_corrected;
    return OK;
}
int nvmlDeviceGetRemappedRows(void *h, unsigned *a, unsigned *b, unsigned *c, unsigned *d) {
    DEVICE(h)
    *a = g->remap[0], *b = g->remap[1], *c = g->remap[2], *d = g->remap[3];
    return OK;
}
int nvmlDeviceGetFieldValues(void *h, int n, Field *out) {
    DEVICE(h)
    for (int i = 0; i < n; i++) out[i].ret = OK, out[i].type = 1, out[i].value = g->recovery;
    return OK;
}
