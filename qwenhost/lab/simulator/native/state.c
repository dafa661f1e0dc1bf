/* qwenhost lab: the state file, as guest/state.py describes it. Reads are cached by inode and time. */
#define _GNU_SOURCE
#include "sim.h"
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static char *text;          /* "\nkey=value\n...": every key follows a line end */
static size_t room;
static struct stat seen;
static int lock_fd = -1;

static void path_of(char *out, const char *name)
{
    const char *root = getenv("A100SIM_ROOT");
    snprintf(out, PATH_MAX, "%s/var/lib/a100sim/%s", root ? root : "", name);
}

static int same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size
        && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int read_all(int fd, size_t size)
{
    if (room < size + 3) {
        char *bigger = realloc(text, size + 3);
        if (!bigger) return -1;
        text = bigger;
        room = size + 3;
    }
    size_t done = 0;
    while (done < size) {
        ssize_t part = read(fd, text + 1 + done, size - done);
        if (part <= 0) break;
        done += (size_t)part;
    }
    text[0] = '\n';
    text[1 + done] = 0;
    return 0;
}

static int refresh(void)
{
    char path[PATH_MAX];
    struct stat now;
    path_of(path, "state");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    int failed = fstat(fd, &now);
    if (!failed && (!text || !same(&now, &seen))) {
        failed = read_all(fd, (size_t)now.st_size);
        seen = now;
    }
    close(fd);
    return failed;
}

static const char *find(const char *key, size_t *length)
{
    char wanted[160];
    snprintf(wanted, sizeof wanted, "\n%s=", key);
    char *at = text ? strstr(text, wanted) : NULL;
    if (!at) return NULL;
    at += strlen(wanted);
    *length = strcspn(at, "\n");
    return at;
}

static int copy(const char *key, char *out, size_t size)
{
    size_t length;
    const char *value = find(key, &length);
    if (!value) return E_UNSUPPORTED;
    if (length >= size) return E_SIZE;
    memcpy(out, value, length);
    out[length] = 0;
    return OK;
}

static int fetch(const char *key, const char *second, char *out, size_t size)
{
    pthread_mutex_lock(&guard);
    int result = (lock_fd < 0 && refresh()) ? E_NO_DRIVER : copy(key, out, size);
    if (result == E_UNSUPPORTED && second) result = copy(second, out, size);
    pthread_mutex_unlock(&guard);
    return result;
}

int sim_state_present(void)
{
    char path[PATH_MAX];
    path_of(path, "state");
    return access(path, R_OK) == 0;
}

int sim_text(char *out, size_t size, const char *format, ...)
{
    char key[128];
    va_list list;
    va_start(list, format);
    vsnprintf(key, sizeof key, format, list);
    va_end(list);
    return fetch(key, NULL, out, size);
}

long sim_global(const char *key, long fallback)
{
    char value[64];
    return fetch(key, NULL, value, sizeof value) ? fallback : strtol(value, NULL, 10);
}

int sim_gpu_text(int gpu, const char *key, char *out, size_t size)
{
    char own[128], board[128];
    snprintf(own, sizeof own, "gpu%d.%s", gpu, key);
    snprintf(board, sizeof board, "board.%s", key);
    return fetch(own, board, out, size);
}

int sim_gpu_number(int gpu, const char *key, long long *out)
{
    char value[64];
    int result = sim_gpu_text(gpu, key, value, sizeof value);
    if (!result) *out = strtoll(value, NULL, 0);
    return result;
}

long long sim_gpu_value(int gpu, const char *key, long long fallback)
{
    long long value = fallback;
    return sim_gpu_number(gpu, key, &value) ? fallback : value;
}

void sim_wait_while_hung(void)
{
    while (sim_global("driver.hang", 0)) usleep(200000);
}

int sim_begin(void)
{
    char path[PATH_MAX];
    path_of(path, "");
    if (access(path, W_OK)) return E_PERMISSION;
    path_of(path, "lock");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return E_PERMISSION;
    if (flock(fd, LOCK_EX)) { close(fd); return E_OS; }
    pthread_mutex_lock(&guard);
    int failed = refresh();
    lock_fd = fd;
    pthread_mutex_unlock(&guard);
    return failed ? sim_end(E_NO_DRIVER) : OK;
}

static void remove_key(const char *key)
{
    size_t length;
    char *value = (char *)find(key, &length);
    if (!value) return;
    char *line = value - strlen(key) - 1, *after = value + length;
    if (*after) after++;
    memmove(line, after, strlen(after) + 1);
}

void sim_put(const char *value, const char *format, ...)
{
    char key[128];
    va_list list;
    va_start(list, format);
    vsnprintf(key, sizeof key, format, list);
    va_end(list);
    pthread_mutex_lock(&guard);
    remove_key(key);
    size_t used = strlen(text), extra = value ? strlen(key) + strlen(value) + 3 : 0;
    if (value && used + extra >= room) {
        char *bigger = realloc(text, used + extra + 4096);
        if (bigger) { text = bigger; room = used + extra + 4096; } else value = NULL;
    }
    if (value) sprintf(text + used, "%s%s=%s\n", text[used - 1] == '\n' ? "" : "\n", key, value);
    pthread_mutex_unlock(&guard);
}

static int store(void)
{
    char path[PATH_MAX], next[PATH_MAX];
    path_of(path, "state");
    path_of(next, "state.native");
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) return E_OS;
    size_t size = strlen(text + 1);
    ssize_t done = write(fd, text + 1, size);
    if (close(fd) || done != (ssize_t)size || rename(next, path)) return E_OS;
    return OK;
}

int sim_end(int result)
{
    pthread_mutex_lock(&guard);
    if (!result) result = store();
    memset(&seen, 0, sizeof seen);
    close(lock_fd);
    lock_fd = -1;
    pthread_mutex_unlock(&guard);
    return result;
}
