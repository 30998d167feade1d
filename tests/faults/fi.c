/*
 * A shim for LD_PRELOAD that fails, or kills the process, at the n-th system call that changes something below a root.
 *
 *   FI_ROOT  only calls on paths below this directory count
 *   FI_AT    which of them is hit, from 1; 0: none
 *   FI_MODE  kill-before, kill-after, torn (half the bytes, then kill), enospc, eio, short, enospc-on, eio-on
 *            ("-on": every call from the n-th on)
 *   FI_LOG   a file that gets one line for each call: its name and path
 *
 * Build: cc -O1 -shared -fPIC -o fi.so fi.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define REAL(ret, name, ...)                                              \
    static ret (*real)(__VA_ARGS__);                                      \
    if (!real) real = (ret (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

enum hit { MISS, FAIL, DIE_AFTER, TEAR, SHORTEN };

static int is_mode(const char *mode) {
    const char *wanted = getenv("FI_MODE");
    return wanted && !strcmp(wanted, mode);
}

static int below_root(const char *path) {
    const char *root = getenv("FI_ROOT");
    char cwd[PATH_MAX];
    if (!root || !path) return 0;
    if (path[0] != '/') path = getcwd(cwd, sizeof cwd);
    return path && !strncmp(path, root, strlen(root));
}

static int fd_below_root(int fd, char *path) {
    char link[64];
    ssize_t length;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below_root(path);
}

static void note(const char *call, const char *path) {
    static int log_fd = -2;
    char line[PATH_MAX + 64];
    REAL(int, "open", const char *, int, ...);
    static ssize_t (*real_write)(int, const void *, size_t);
    if (!real_write) real_write = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (log_fd == -2) {
        const char *name = getenv("FI_LOG");
        log_fd = name ? real(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    }
    if (log_fd >= 0) {
        int length = snprintf(line, sizeof line, "%s %s\n", call, path);
        if (real_write(log_fd, line, length) < 0) abort();
    }
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static enum hit count(const char *call, const char *path) {
    static long counted, at = -1;
    int on = is_mode("enospc-on") || is_mode("eio-on");
    if (at < 0) at = getenv("FI_AT") ? atol(getenv("FI_AT")) : 0;
    note(call, path);
    counted++;
    if (at == 0 || (on ? counted < at : counted != at)) return MISS;
    if (is_mode("kill-before")) die();
    if (is_mode("kill-after")) return DIE_AFTER;
    if (is_mode("torn")) return TEAR;
    if (is_mode("short")) return SHORTEN;
    errno = is_mode("eio") || is_mode("eio-on") ? EIO : ENOSPC;
    return FAIL;
}

#define HIT(call, path)                     \
    enum hit hit = count(call, path);       \
    if (hit == FAIL) return -1
#define AFTER                               \
    if (hit == DIE_AFTER || hit == TEAR) die()

static int opened(const char *name, int dir, const char *path, int flags, mode_t mode) {
    int fd;
    static int (*real_open)(const char *, int, ...);
    static int (*real_openat)(int, const char *, int, ...);
    if (!real_open) real_open = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    if (!real_openat) real_openat = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat");
    if (!(flags & O_CREAT) || !below_root(path))
        return dir == AT_FDCWD ? real_open(path, flags, mode) : real_openat(dir, path, flags, mode);
    HIT(name, path);
    fd = dir == AT_FDCWD ? real_open(path, flags, mode) : real_openat(dir, path, flags, mode);
    AFTER;
    return fd;
}

#define MODE                                \
    mode_t mode = 0;                        \
    if (flags & O_CREAT) {                  \
        va_list rest;                       \
        va_start(rest, flags);              \
        mode = va_arg(rest, mode_t);        \
        va_end(rest);                       \
    }

int open(const char *path, int flags, ...) { MODE return opened("open", AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened("open", AT_FDCWD, path, flags, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE return opened("open", dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE return opened("open", dir, path, flags, mode); }

ssize_t write(int fd, const void *bytes, size_t length) {
    char path[PATH_MAX];
    ssize_t done;
    REAL(ssize_t, "write", int, const void *, size_t);
    if (!fd_below_root(fd, path)) return real(fd, bytes, length);
    HIT("write", path);
    done = real(fd, bytes, hit >= TEAR && length > 1 ? length / 2 : length);
    AFTER;
    return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset) {
    char path[PATH_MAX];
    ssize_t done;
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off_t);
    if (!fd_below_root(fd, path)) return real(fd, bytes, length, offset);
    HIT("write", path);
    done = real(fd, bytes, hit >= TEAR && length > 1 ? length / 2 : length, offset);
    AFTER;
    return done;
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) { return pwrite64(fd, bytes, length, offset); }

#define ON_FD(ret, name, PARAMETERS, TYPES, ARGUMENTS)     \
    ret name PARAMETERS {                                  \
        char path[PATH_MAX];                               \
        ret done;                                          \
        static ret(*real) TYPES;                           \
        if (!real) real = (ret(*) TYPES)dlsym(RTLD_NEXT, #name); \
        if (!fd_below_root(fd, path)) return real ARGUMENTS; \
        HIT(#name, path);                                  \
        done = real ARGUMENTS;                             \
        AFTER;                                             \
        return done;                                       \
    }
ON_FD(int, fsync, (int fd), (int), (fd))
ON_FD(int, fdatasync, (int fd), (int), (fd))
ON_FD(int, ftruncate, (int fd, off_t length), (int, off_t), (fd, length))
ON_FD(int, ftruncate64, (int fd, off_t length), (int, off_t), (fd, length))

/* posix_fallocate returns its error */
static int allocated(int fd, off_t offset, off_t length) {
    char path[PATH_MAX];
    int done;
    REAL(int, "posix_fallocate64", int, off_t, off_t);
    if (!fd_below_root(fd, path)) return real(fd, offset, length);
    enum hit hit = count("fallocate", path);
    if (hit == FAIL) return errno;
    done = real(fd, offset, length);
    AFTER;
    return done;
}
int posix_fallocate(int fd, off_t offset, off_t length) { return allocated(fd, offset, length); }
int posix_fallocate64(int fd, off_t offset, off_t length) { return allocated(fd, offset, length); }

#define ON_PATH(name, PARAMETERS, TYPES, ARGUMENTS)        \
    int name PARAMETERS {                                  \
        int done;                                          \
        static int(*real) TYPES;                           \
        if (!real) real = (int(*) TYPES)dlsym(RTLD_NEXT, #name); \
        if (!below_root(path)) return real ARGUMENTS;      \
        HIT(#name, path);                                  \
        done = real ARGUMENTS;                             \
        AFTER;                                             \
        return done;                                       \
    }
ON_PATH(unlink, (const char *path), (const char *), (path))
ON_PATH(rmdir, (const char *path), (const char *), (path))
ON_PATH(mkdir, (const char *path, mode_t mode), (const char *, mode_t), (path, mode))
ON_PATH(link, (const char *from, const char *path), (const char *, const char *), (from, path))
ON_PATH(rename, (const char *from, const char *path), (const char *, const char *), (from, path))
ON_PATH(linkat, (int a, const char *from, int b, const char *path, int flags),
        (int, const char *, int, const char *, int), (a, from, b, path, flags))
ON_PATH(unlinkat, (int dir, const char *path, int flags), (int, const char *, int), (dir, path, flags))
