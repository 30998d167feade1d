/*
 * A shim for LD_PRELOAD that fails a system call which changes something below a root, or kills its caller there.
 *
 * All processes that have FI_CONTROL in their environment share the file it names (struct control, below; shim.py has
 * its twin): one counter, whoever makes the call, so that a point means the same with git children and without.
 * What is logged goes to "<FI_CONTROL>.log", a row for each call, and, where it wrote some, the bytes and a line end:
 *
 *   name TAB inode TAB path TAB second path TAB offset TAB bytes that follow TAB errno LF
 *
 * In a process with FI_ACKS set, a write to descriptor 1 is logged as "ack".
 *
 * Build: cc -O2 -shared -fPIC -o fi.so fi.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum mode { NONE, KILL_BEFORE, KILL_AFTER, TORN, SHORT, FAIL_WITH };

struct control {
    atomic_long counted; /* calls so far */
    long at;             /* which is hit, from 1; 0: none */
    long mode;
    long error;    /* for FAIL_WITH */
    long length;   /* how many calls from `at` on are hit */
    long group;    /* a kill takes the whole process group */
    long logging;  /* 1: calls, 2: with their bytes */
    long hits;     /* how many were hit */
    char root[4032];
};

static struct control *control;
static int log_fd = -1, acks;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("FI_CONTROL");
    char log[PATH_MAX];
    int fd, (*real_open)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    void *mapped;
    if (!name || (fd = real_open(name, O_RDWR | O_CLOEXEC)) < 0) return;
    mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped == MAP_FAILED) return;
    snprintf(log, sizeof log, "%s.log", name);
    log_fd = real_open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    acks = getenv("FI_ACKS") != NULL;
    control = mapped;
}

/* ---- which calls count */

static int absolute(int dir, const char *path, char *out) {
    char link[64];
    ssize_t length;
    if (!path) return 0;
    if (path[0] == '/') return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
    if (dir == AT_FDCWD) {
        if (!getcwd(out, PATH_MAX)) return 0;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        length = readlink(link, out, PATH_MAX - 1);
        if (length < 0) return 0;
        out[length] = 0;
    }
    length = strlen(out);
    return snprintf(out + length, PATH_MAX - length, "/%s", path) < PATH_MAX - length;
}

/* The root ends in a slash. The folder itself counts too, which has none: an fsync of it keeps the names in it. */
static int in_root(const char *path) {
    size_t length = strlen(control->root);
    return !strncmp(path, control->root, length) || (strlen(path) + 1 == length && !strncmp(path, control->root, length - 1));
}

static int below_root(int dir, const char *path, char *out) {
    return control && control->root[0] && absolute(dir, path, out) && in_root(out);
}

static int fd_below_root(int fd, char *out) {
    char link[64];
    ssize_t length;
    if (!control || !control->root[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, out, PATH_MAX - 1);
    if (length < 0) return 0;
    out[length] = 0;
    return in_root(out);
}

/* ---- the log */

static void note(const char *call, long inode, const char *path, const char *second, long offset, const void *bytes,
                 long length, int error) {
    char row[2 * PATH_MAX + 200];
    struct iovec parts[3];
    if (!control->logging || log_fd < 0) return;
    if (control->logging < 2) length = 0;
    parts[0].iov_base = row;
    parts[0].iov_len = snprintf(row, sizeof row, "%s\t%ld\t%s\t%s\t%ld\t%ld\t%d\n", call, inode, path, second, offset,
                                length, error);
    parts[1].iov_base = (void *)bytes;
    parts[1].iov_len = length;
    parts[2].iov_base = "\n";
    parts[2].iov_len = 1;
    if (writev(log_fd, parts, length ? 3 : 1) < 0) abort();
}

static long inode_of(int fd) {
    struct stat found;
    return fstat(fd, &found) ? 0 : (long)found.st_ino;
}

static long inode_at(const char *path) {
    struct stat found;
    return lstat(path, &found) ? 0 : (long)found.st_ino;
}

/* ---- hitting */

static void die(void) {
    kill(control->group ? 0 : getpid(), SIGKILL);
    for (;;) pause();
}

/* What is to be done to this call: NONE, or what the mode says; a kill before it does not return. */
static enum mode count(void) {
    long number = atomic_fetch_add(&control->counted, 1) + 1;
    if (!control->at || number < control->at || number - control->at >= control->length) return NONE;
    control->hits++;
    if (control->mode == KILL_BEFORE) die();
    return control->mode;
}

/* Count a call, fail it or make it, log it, and die where that is wanted. `inode` may use `done`. */
#define MAKE(type, failed, call, real, inode, path, second, offset, bytes, length)           \
    enum mode hit = count();                                                                 \
    type done;                                                                               \
    int error;                                                                               \
    if (hit == FAIL_WITH) {                                                                  \
        int wanted = control->error;                                                         \
        note(call, inode, path, second, offset, bytes, 0, wanted);                           \
        errno = wanted;                                                                      \
        return failed;                                                                       \
    }                                                                                        \
    done = real;                                                                             \
    error = errno;                                                                           \
    note(call, inode, path, second, offset, bytes, done < 0 ? 0 : (length), done < 0 ? error : 0); \
    if (hit == KILL_AFTER || hit == TORN) die();                                             \
    errno = error;                                                                           \
    return done

#define REAL(type, name, ...)                                             \
    static type (*real)(__VA_ARGS__);                                     \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

/* ---- the calls */

static int opened(int dir, const char *given, int flags, mode_t mode) {
    char path[PATH_MAX];
    REAL(int, "openat", int, const char *, int, ...);
    if (!(flags & (O_CREAT | O_TRUNC)) || !below_root(dir, given, path)) return real(dir, given, flags, mode);
    long before = inode_at(path);
    const char *call = before ? (flags & O_TRUNC ? "truncate" : "open") : "create";
    MAKE(int, -1, call, real(dir, given, flags, mode), inode_at(path), path, "", 0, NULL, 0);
}

#define MODE                                \
    mode_t mode = 0;                        \
    if (flags & (O_CREAT | O_TMPFILE)) {    \
        va_list rest;                       \
        va_start(rest, flags);              \
        mode = va_arg(rest, mode_t);        \
        va_end(rest);                       \
    }

int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE return opened(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE return opened(dir, path, flags, mode); }

/* Half of a write that is torn or cut short. */
#define PART(length) ((hit == TORN || hit == SHORT) && (length) > 1 ? (length) / 2 : (length))

ssize_t write(int fd, const void *bytes, size_t length) {
    char path[PATH_MAX];
    REAL(ssize_t, "write", int, const void *, size_t);
    if (fd == 1 && acks && control) {
        note("ack", 0, "", "", 0, bytes, length, 0);
        return real(fd, bytes, length);
    }
    if (!fd_below_root(fd, path)) return real(fd, bytes, length);
    long offset = lseek(fd, 0, SEEK_CUR);
    MAKE(ssize_t, -1, "write", real(fd, bytes, PART(length)), inode_of(fd), path, "", offset, bytes, done);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset) {
    char path[PATH_MAX];
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off_t);
    if (!fd_below_root(fd, path)) return real(fd, bytes, length, offset);
    MAKE(ssize_t, -1, "write", real(fd, bytes, PART(length), offset), inode_of(fd), path, "", offset, bytes, done);
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) { return pwrite64(fd, bytes, length, offset); }

#define SYNC(name)                                                                             \
    int name(int fd) {                                                                         \
        char path[PATH_MAX];                                                                   \
        REAL(int, #name, int);                                                                 \
        if (!fd_below_root(fd, path)) return real(fd);                                         \
        MAKE(int, -1, #name, real(fd), inode_of(fd), path, "", 0, NULL, 0);                    \
    }
SYNC(fsync)
SYNC(fdatasync)

#define RESIZE(name)                                                                           \
    int name(int fd, off_t length) {                                                           \
        char path[PATH_MAX];                                                                   \
        REAL(int, #name, int, off_t);                                                          \
        if (!fd_below_root(fd, path)) return real(fd, length);                                 \
        MAKE(int, -1, "ftruncate", real(fd, length), inode_of(fd), path, "", length, NULL, 0); \
    }
RESIZE(ftruncate)
RESIZE(ftruncate64)

/* posix_fallocate returns its error. */
static int allocated(int fd, off_t offset, off_t length) {
    char path[PATH_MAX];
    REAL(int, "posix_fallocate64", int, off_t, off_t);
    if (!fd_below_root(fd, path)) return real(fd, offset, length);
    MAKE(int, wanted, "fallocate", real(fd, offset, length), inode_of(fd), path, "", offset + length, NULL, 0);
}
int posix_fallocate(int fd, off_t offset, off_t length) { return allocated(fd, offset, length); }
int posix_fallocate64(int fd, off_t offset, off_t length) { return allocated(fd, offset, length); }

static int removed(int dir, const char *given, int flags) {
    char path[PATH_MAX];
    REAL(int, "unlinkat", int, const char *, int);
    if (!below_root(dir, given, path)) return real(dir, given, flags);
    long inode = inode_at(path);
    MAKE(int, -1, flags & AT_REMOVEDIR ? "rmdir" : "unlink", real(dir, given, flags), inode, path, "", 0, NULL, 0);
}
int unlink(const char *path) { return removed(AT_FDCWD, path, 0); }
int unlinkat(int dir, const char *path, int flags) { return removed(dir, path, flags); }
int rmdir(const char *path) { return removed(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    struct stat found;
    return removed(AT_FDCWD, path, !lstat(path, &found) && S_ISDIR(found.st_mode) ? AT_REMOVEDIR : 0);
}

int mkdirat(int dir, const char *given, mode_t mode) {
    char path[PATH_MAX];
    REAL(int, "mkdirat", int, const char *, mode_t);
    if (!below_root(dir, given, path)) return real(dir, given, mode);
    MAKE(int, -1, "mkdir", real(dir, given, mode), inode_at(path), path, "", 0, NULL, 0);
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int linkat(int from_dir, const char *from, int dir, const char *given, int flags) {
    char first[PATH_MAX], path[PATH_MAX];
    REAL(int, "linkat", int, const char *, int, const char *, int);
    if (!below_root(dir, given, path) || !absolute(from_dir, from, first))
        return real(from_dir, from, dir, given, flags);
    MAKE(int, -1, "link", real(from_dir, from, dir, given, flags), inode_at(first), first, path, 0, NULL, 0);
}
int link(const char *from, const char *path) { return linkat(AT_FDCWD, from, AT_FDCWD, path, 0); }

int renameat(int from_dir, const char *from, int dir, const char *given) {
    char first[PATH_MAX], path[PATH_MAX];
    REAL(int, "renameat", int, const char *, int, const char *);
    if (!below_root(dir, given, path) || !absolute(from_dir, from, first)) return real(from_dir, from, dir, given);
    long inode = inode_at(first);
    MAKE(int, -1, "rename", real(from_dir, from, dir, given), inode, first, path, 0, NULL, 0);
}
int rename(const char *from, const char *path) { return renameat(AT_FDCWD, from, AT_FDCWD, path); }
