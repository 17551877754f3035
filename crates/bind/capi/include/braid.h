/* BraidFS for C programs. libbraid(3) is the introduction; docs/c.md says how to build and link.
 *
 * Every function that can fail returns -1 or NULL, sets errno, and leaves braid_error_message(). Descriptors are libbraid's, not the
 * kernel's: they go to braid_*() only. All functions may be called from any thread. A child after fork() has none of its parent's
 * descriptors: it connects anew. Pointers that are not NULL must point to what their types say; NULL where something is needed
 * is EFAULT.
 *
 * Made by cbindgen from crates/bind/capi/src: change it there. */

#ifndef BRAID_H
#define BRAID_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

struct timespec;

/**
 * For `braid_options.tls`: as configuration and environment say.
 */
#define BRAID_TLS_CONFIGURED 0

/**
 * For `braid_options.tls`: TLS unless both ends are on this machine.
 */
#define BRAID_TLS_UNLESS_LOOPBACK 1

/**
 * For `braid_options.tls`: TLS always.
 */
#define BRAID_TLS_ALWAYS 2

/**
 * For `braid_options.tls`: TLS never.
 */
#define BRAID_TLS_NEVER 3

/**
 * How a collective call goes about it: the I/O daemons do it where the tasks want interleaved short pieces (shorter than 256 bytes to
 * read, 16 KiB to write; over TLS 4 KiB for both), or write what overlaps; else each task by itself. The same for all tasks.
 */
#define BRAID_COLLECTIVE_AUTO 0

/**
 * The I/O daemons, wherever two tasks or more want bytes.
 */
#define BRAID_COLLECTIVE_SERVER 1

/**
 * Each task by itself.
 */
#define BRAID_COLLECTIVE_INDEPENDENT 2

/**
 * Added to one of these: a write in which tasks overlap is EINVAL. Without it the bytes of the highest rank are in the file after it.
 */
#define BRAID_COLLECTIVE_NO_OVERLAP 16

/**
 * Tells which file system a descriptor is of: struct braid_mount.
 */
#define BRAID_GET_MOUNT 1

/**
 * Tells the striping parameters of a file: struct braid_metadata.
 */
#define BRAID_GET_METADATA 2

/**
 * Sets the striping parameters of a file that was never written and that nobody else has open: struct braid_metadata. The
 * descriptor stays, its cursor is at 0. It takes some seconds, until the server has recorded that the file is empty;
 * braid_open_layout takes none.
 */
#define BRAID_SET_METADATA 3

/**
 * Tells the partition that the descriptor sees: struct braid_partition.
 */
#define BRAID_GET_PARTITION 4

/**
 * Sets the partition that the descriptor sees; its cursor is at 0: struct braid_partition.
 */
#define BRAID_SET_PARTITION 5

/**
 * For `braid_layout.distribution`: left to the directory.
 */
#define BRAID_DISTRIBUTION_ANY 0

/**
 * Round robin of stripes over all parts.
 */
#define BRAID_SIMPLE_STRIPE 1

/**
 * The whole file in one part.
 */
#define BRAID_SINGLE 2

/**
 * A cycle of strips of different sizes.
 */
#define BRAID_VARSTRIP 3

/**
 * Two-dimensional: stripes over groups of parts.
 */
#define BRAID_GROUPED 4

/**
 * For `braid_layout.placement`: left to the directory.
 */
#define BRAID_PLACEMENT_ANY 0

/**
 * I/O daemons one after the other.
 */
#define BRAID_ROUND_ROBIN 1

/**
 * Those with the most room first.
 */
#define BRAID_FREE_SPACE 2

/**
 * By the owner's user id.
 */
#define BRAID_OWNER 3

/**
 * One task's place among the tasks of a parallel program.
 */
struct braid_group;

/**
 * A part of a view: which bytes it covers, relative to where it is laid.
 */
struct braid_pattern;

/**
 * A call that was started.
 */
struct braid_request;

/**
 * A view: a pattern that is laid at a displacement of the file and then again and again. The bytes that it covers, in order, are
 * its stream; reading and writing through it is at positions of the stream.
 */
struct braid_view;

/**
 * One piece: bytes of the file, whatever the view, and the memory that they go to or come from.
 */
struct braid_piece {
  /**
   * Where in the file, in bytes.
   */
  int64_t offset;
  /**
   * The memory.
   */
  void *memory;
  /**
   * How many bytes.
   */
  size_t bytes;
};

/**
 * How to connect. All zeros leaves everything to environment and configuration.
 */
struct braid_options {
  /**
   * A client's key file, or NULL.
   */
  const char *key_file;
  /**
   * The socket of this host's agent, or NULL. It says who the program is, from the kernel's word.
   */
  const char *agent;
  /**
   * What the server shows for this client, or NULL for "program[pid]".
   */
  const char *client_name;
  /**
   * How long a call may take when a server is gone, in milliseconds; 0 for the configured time, or 30 s.
   */
  uint32_t timeout_ms;
  /**
   * One of BRAID_TLS_*.
   */
  int tls;
  /**
   * Zeros.
   */
  uint64_t reserved[8];
};

/**
 * One strip of BRAID_VARSTRIP.
 */
struct braid_strip {
  /**
   * Which part, from 0.
   */
  uint16_t part;
  /**
   * Bytes in the strip.
   */
  uint64_t bytes;
};

/**
 * Where the bytes of a new file go. braid_layout_init makes one that leaves everything to the directory.
 */
struct braid_layout {
  /**
   * How bytes are spread: one of BRAID_SIMPLE_STRIPE, BRAID_SINGLE, BRAID_VARSTRIP, BRAID_GROUPED.
   */
  uint32_t distribution;
  /**
   * Over how many I/O daemons, of those that the cluster has; 0 leaves it open.
   */
  uint32_t iod_count;
  /**
   * The I/O daemon that gets the first stripe, as an ordinal among those that are up, from 0; -1 leaves it open.
   */
  int32_t first_iod;
  /**
   * How I/O daemons are picked: one of BRAID_ROUND_ROBIN, BRAID_FREE_SPACE, BRAID_OWNER.
   */
  uint32_t placement;
  /**
   * Bytes in one stripe; 0 leaves it open.
   */
  uint64_t stripe_bytes;
  /**
   * For BRAID_GROUPED: parts in one group, and rows in a group before the next; 0 leaves them open.
   */
  uint32_t group_width;
  /**
   * See group_width.
   */
  uint32_t group_depth;
  /**
   * For BRAID_VARSTRIP: the cycle. Not filled by braid_layout_get and braid_layout_of, which leave NULL.
   */
  const struct braid_strip *strips;
  /**
   * How many strips there are.
   */
  size_t strip_count;
  /**
   * Only I/O daemons that have all of these labels, "key=value". Not filled either.
   */
  const char *const *labels;
  /**
   * How many labels there are.
   */
  size_t label_count;
};

/**
 * Gives `bytes` bytes at `mine` to all tasks, and stores what each gave at `all`, `bytes` of each, in the order of ranks: as
 * MPI_Allgather. `bytes` is the same in every task. Returns 0, or anything else when a task is lost: then no later call of the
 * group succeeds either.
 */
typedef int (*braid_all_gather)(void *context, const void *mine, size_t bytes, void *all);

/**
 * One entry of a directory. "." and ".." are not among them.
 */
struct braid_dirent {
  /**
   * The file's index: st_ino.
   */
  uint64_t file;
  /**
   * Where to go on after this entry: for braid_seekdir, also after a new braid_opendir.
   */
  uint64_t cookie;
  /**
   * What it is: one of DT_* of dirent.h.
   */
  uint32_t kind;
  /**
   * How long the name is, in bytes.
   */
  uint32_t name_bytes;
  /**
   * The name, with a zero behind it.
   */
  char name[256];
};

/**
 * Room in the file system.
 */
struct braid_space {
  /**
   * All of it, in bytes.
   */
  uint64_t total_bytes;
  /**
   * What this user may still write, in bytes.
   */
  uint64_t available_bytes;
  /**
   * Files there are.
   */
  uint64_t files;
  /**
   * I/O daemons that there are.
   */
  uint32_t iods;
  /**
   * I/O daemons that are up.
   */
  uint32_t iods_up;
};

/**
 * A contiguous run of bytes of a file.
 */
struct braid_extent {
  /**
   * Where it starts, in bytes.
   */
  int64_t offset;
  /**
   * How long it is, in bytes; at least 1.
   */
  int64_t bytes;
};

/**
 * The file system that a descriptor is of.
 */
struct braid_mount {
  /**
   * Addresses of the metadata server (the paper's manager), separated by commas; cut when it is longer.
   */
  char manager[256];
  /**
   * I/O daemons that there are.
   */
  uint32_t iods;
  /**
   * I/O daemons that are up.
   */
  uint32_t iods_up;
  /**
   * All room, in bytes.
   */
  uint64_t total_bytes;
  /**
   * What may still be written, in bytes.
   */
  uint64_t available_bytes;
};

/**
 * The paper's striping parameters.
 */
struct braid_metadata {
  /**
   * Bytes of a stripe on one I/O daemon; 0 leaves it to the directory.
   */
  uint64_t stripe_bytes;
  /**
   * The I/O daemon with the first stripe, as an ordinal among those that are up; -1 leaves it open.
   */
  int32_t base;
  /**
   * Over how many I/O daemons, of those that the cluster has; 0 leaves it open.
   */
  uint32_t node_count;
};

/**
 * The paper's partition parameters, in bytes. A group as large as the stride, or both 0, is the file from `offset` on.
 */
struct braid_partition {
  /**
   * Where the partition begins in the file.
   */
  uint64_t offset;
  /**
   * Bytes that are seen in each stride.
   */
  uint64_t group_size;
  /**
   * From the start of one group to the start of the next.
   */
  uint64_t stride;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Starts braid_pread. The memory is the library's until braid_wait. Returns a request for braid_test and braid_wait, or NULL.
 */
struct braid_request *braid_pread_start(int file,
                                        void *buffer,
                                        size_t bytes,
                                        int64_t at);

/**
 * Starts braid_pwrite; otherwise as braid_pread_start.
 */
struct braid_request *braid_pwrite_start(int file, const void *buffer, size_t bytes, int64_t at);

/**
 * Starts braid_preadv. The array of pieces is the program's again at once, their memory after braid_wait.
 */
struct braid_request *braid_preadv_start(int file,
                                         const struct iovec *iov,
                                         int count,
                                         int64_t at);

/**
 * Starts braid_pwritev; otherwise as braid_preadv_start.
 */
struct braid_request *braid_pwritev_start(int file, const struct iovec *iov, int count, int64_t at);

/**
 * Starts braid_read_list. The array of pieces is the program's again at once, their memory after braid_wait.
 */
struct braid_request *braid_read_list_start(int file,
                                            const struct braid_piece *pieces,
                                            size_t count);

/**
 * Starts braid_write_list; otherwise as braid_read_list_start.
 */
struct braid_request *braid_write_list_start(int file,
                                             const struct braid_piece *pieces,
                                             size_t count);

/**
 * Starts braid_fsync: of what was written before it was started.
 */
struct braid_request *braid_fsync_start(int file);

/**
 * Whether a request is done: 1, or 0 when it is still under way. It must be waited for all the same.
 */
int braid_test(const struct braid_request *request);

/**
 * Waits for a request and frees it. Returns what the call would have returned, with errno and message on this thread.
 */
ssize_t braid_wait(struct braid_request *request);

/**
 * Why the last call of this thread that failed did so, as a person would want to read it: "what failed: why; try: command".
 * Empty when none has failed yet. The text stays until the next call of this thread that fails. Calls that succeed leave it.
 */
const char *braid_error_message(void);

/**
 * Connects to a cluster, as the user that the program runs as (through the host's agent) or as the holder of a key.
 *
 * where: NULL for what the braid command uses (BRAID_CONFIG, ./braid.toml, ~/.config/braid/braid.toml,
 * /etc/braid/braid.toml; BRAID_MDS, BRAID_KEY, BRAID_AGENT, BRAID_TLS, BRAID_TIMEOUT); the path of a braid.toml; or addresses of
 * the metadata server, "host:port,host:port". options: NULL for none.
 *
 * Returns a descriptor of the cluster, or -1. Modes of what is made get the umask that the process has now.
 */
int braid_connect(const char *where,
                  const struct braid_options *options);

/**
 * Leaves a cluster. Files and directories that are still open stay usable until they are closed; with the last of them the
 * session ends. 0, or -1.
 */
int braid_disconnect(int cluster);

/**
 * As braid_pread, all tasks of the group together, each through its own view of the file; a task without bytes calls it with 0 bytes.
 * how: one of BRAID_COLLECTIVE_*. Returns this task's bytes; or -1 in all tasks, when one fails.
 */
ssize_t braid_pread_all(int file,
                        const struct braid_group *group,
                        void *buffer,
                        size_t bytes,
                        int64_t at,
                        int how);

/**
 * As braid_pwrite, all tasks of the group together; otherwise as braid_pread_all. After a failure any of the bytes may be written.
 */
ssize_t braid_pwrite_all(int file,
                         const struct braid_group *group,
                         const void *buffer,
                         size_t bytes,
                         int64_t at,
                         int how);

/**
 * Whether two tasks of the group see the same byte of the file in bytes bytes from a position of their views: 1 or 0, the same in all tasks,
 * which all call it; or -1. Moves nothing, asks no daemon, and takes time for the pieces of all tasks.
 */
int braid_overlap_all(int file,
                      const struct braid_group *group,
                      size_t bytes,
                      int64_t at);

/**
 * Takes part in the collective call that the other tasks make, with a failure: for a task that cannot make it. It fails in all tasks
 * with this reason, and with this errno where it is one of libbraid's own, else EINVAL. 0 when they have heard of it, or -1.
 */
int braid_refuse_all(const struct braid_group *group,
                     int error,
                     const char *why);

/**
 * Starts braid_pread_all; otherwise as braid_pread_start. A function of the program's that the group was made of is called on a thread
 * of the library. Calls of one group go on one after the other: wait for this one before the next is made or started. What makes no
 * sense is told by braid_wait, as in the other tasks; NULL, when the group is none.
 */
struct braid_request *braid_pread_all_start(int file,
                                            const struct braid_group *group,
                                            void *buffer,
                                            size_t bytes,
                                            int64_t at,
                                            int how);

/**
 * Starts braid_pwrite_all; otherwise as braid_pread_all_start.
 */
struct braid_request *braid_pwrite_all_start(int file,
                                             const struct braid_group *group,
                                             const void *buffer,
                                             size_t bytes,
                                             int64_t at,
                                             int how);

/**
 * The 1996 paper's requests on a descriptor: one of BRAID_GET_MOUNT, BRAID_GET_METADATA, BRAID_SET_METADATA,
 * BRAID_GET_PARTITION, BRAID_SET_PARTITION, with the struct that it names. 0, or -1.
 */
int braid_fcntl(int descriptor,
                int request,
                void *argument);

/**
 * Closes a file. The descriptor is gone afterwards, also when -1 says that data which nobody synced was lost (EIO). With the
 * last descriptor of an open file its locks go, too.
 */
int braid_close(int file);

/**
 * As copy_file_range(2): copies up to `bytes` bytes from `from` at `from_at` to `to` at `to_at`, within the I/O daemons where both files
 * lie alike on them, else through this program. Positions are the files', whatever the views; cursors stay. Returns how many bytes were
 * copied: fewer where the source ends, and where one call would take too long, 0 at the source's end; EINVAL when the ranges are of one
 * file and overlap.
 */
ssize_t braid_copy_range(int from,
                         int64_t from_at,
                         int to,
                         int64_t to_at,
                         size_t bytes);

/**
 * Locks bytes of the file, as fcntl(2) does for an open file description (F_OFD_SETLK): `bytes` from `offset`, to the end of
 * any file when `bytes` is 0; alone when `exclusive`, else with other readers. With `wait` it waits as long as it takes; without,
 * EAGAIN says that another has them. Positions are the file's, whatever the view. The lock is the descriptor's and goes with it.
 */
int braid_lock(int file,
               int64_t offset,
               int64_t bytes,
               int exclusive,
               int wait);

/**
 * Lets bytes go that this descriptor has locked.
 */
int braid_unlock(int file, int64_t offset, int64_t bytes);

/**
 * As open(2): O_RDONLY, O_WRONLY or O_RDWR with O_CREAT, O_EXCL, O_TRUNC. mode: permission bits of a new file, before the umask.
 * path: from the root of the file system. O_APPEND, O_SYNC, O_DSYNC, O_PATH and O_TMPFILE are refused with EOPNOTSUPP.
 *
 * Returns a descriptor of libbraid, which is none of the kernel's, or -1.
 */
int braid_open(int cluster,
               const char *path,
               int flags,
               mode_t mode);

/**
 * As creat(2): makes a file, or makes an existing one empty, and opens it for writing.
 */
int braid_creat(int cluster, const char *path, mode_t mode);

/**
 * As braid_open; a file that it makes lies as the layout says. NULL leaves everything to the directory.
 */
int braid_open_layout(int cluster,
                      const char *path,
                      int flags,
                      mode_t mode,
                      const struct braid_layout *layout);

/**
 * As read(2), at the cursor of the view. Fewer bytes than asked for only at the end of the file.
 */
ssize_t braid_read(int file, void *buffer, size_t bytes);

/**
 * As readv(2), at the cursor of the view; of any number of pieces.
 */
ssize_t braid_readv(int file, const struct iovec *iov, int count);

/**
 * As pread(2): at a position of the view; the cursor stays.
 */
ssize_t braid_pread(int file, void *buffer, size_t bytes, int64_t at);

/**
 * As preadv(2): at a position of the view; of any number of pieces.
 */
ssize_t braid_preadv(int file, const struct iovec *iov, int count, int64_t at);

/**
 * As lseek(2), in bytes of the view's stream: SEEK_SET, SEEK_CUR, SEEK_END; with the whole file as view SEEK_DATA and
 * SEEK_HOLE, too. The new position, or -1.
 */
int64_t braid_lseek(int file,
                    int64_t offset,
                    int whence);

/**
 * As ftruncate(2): cuts the file to `bytes`, or extends it with zeros, whatever the view.
 */
int braid_ftruncate(int file, int64_t bytes);

/**
 * How long the file is now, in bytes of the file, or -1.
 */
int64_t braid_size(int file);

/**
 * As posix_fallocate(3): reserves room for a range of the file, and extends the file to its end. With `keep_size` the file stays
 * as long as it is.
 */
int braid_allocate(int file,
                   int64_t offset,
                   int64_t bytes,
                   int keep_size);

/**
 * Makes a range of the file read as zeros and gives its room back; the size stays.
 */
int braid_punch_hole(int file, int64_t offset, int64_t bytes);

/**
 * As fsync(2): everything that was written through this open file survives the loss of power when it returns 0: data, size and
 * name. EIO, once, when a daemon lost writes that it had acknowledged.
 */
int braid_fsync(int file);

/**
 * As syncfs(2): everything that was acknowledged before, to files that are closed by now too, survives the loss of power when it
 * returns 0: what this program wrote, and what others wrote, on every I/O daemon. EIO, once, when a daemon lost writes of
 * this program that were never synced.
 */
int braid_sync(int cluster);

/**
 * Gives the descriptor another view, NULL for the whole file; the cursor is at 0. Calls that other threads have under way go on
 * with the old one. The view may be freed afterwards.
 */
int braid_set_view(int file,
                   const struct braid_view *view);

/**
 * A further descriptor of the same open file, with a view and a cursor of its own: many views at once, which may overlap.
 * Returns the descriptor, to be closed with braid_close, or -1.
 */
int braid_with_view(int file,
                    const struct braid_view *view);

/**
 * As write(2), at the cursor of the view. All of it is written, or -1.
 */
ssize_t braid_write(int file, const void *buffer, size_t bytes);

/**
 * As writev(2), at the cursor of the view; of any number of pieces.
 */
ssize_t braid_writev(int file, const struct iovec *iov, int count);

/**
 * As pwrite(2): at a position of the view; the cursor stays.
 */
ssize_t braid_pwrite(int file, const void *buffer, size_t bytes, int64_t at);

/**
 * As pwritev(2): at a position of the view; of any number of pieces.
 */
ssize_t braid_pwritev(int file, const struct iovec *iov, int count, int64_t at);

/**
 * A group whose exchange is the program's: task `rank`, from 0, of `size`. `context` is handed on to all_gather. NULL for a failure; it is
 * freed with braid_group_free. All tasks make the same calls of a group in the same order, one at a time.
 */
struct braid_group *braid_group_calling(uint32_t rank,
                                        uint32_t size,
                                        braid_all_gather all_gather,
                                        void *context);

/**
 * A group over TCP, for programs without MPI: task 0 listens at address, "host:port", the others connect to it, also before it listens.
 * secret: 32 random bytes, the same for all tasks, from who started them. Returns when all are there, or NULL when timeout_ms
 * milliseconds are over.
 */
struct braid_group *braid_group_tcp(const char *address,
                                    uint32_t rank,
                                    uint32_t size,
                                    const void *secret,
                                    uint32_t timeout_ms);

/**
 * Gives `bytes` bytes at `mine` to all tasks, and stores what each gave at `all`, in the order of ranks; `bytes` is the same in every task,
 * and may be 0: then they only wait for each other. timeout_ms: for groups over TCP. 0, or -1.
 */
int braid_group_gather(const struct braid_group *group,
                       const void *mine,
                       size_t bytes,
                       void *all,
                       uint32_t timeout_ms);

/**
 * Leaves a group and frees it; NULL is nothing. Calls of it that were started go on. To the others of a group over TCP the task is lost.
 */
void braid_group_free(struct braid_group *group);

/**
 * Leaves everything to the directory.
 */
int braid_layout_init(struct braid_layout *layout);

/**
 * How an open file lies.
 */
int braid_layout_get(int file, struct braid_layout *layout);

/**
 * The I/O daemons of an open file's parts, by their ids, the one of the first byte first. Returns how many parts there are; as
 * many of them as `count` are in `iods`.
 */
int braid_layout_iods(int file,
                      uint32_t *iods,
                      size_t count);

/**
 * How the file at a path lies, or what new files in the directory there get.
 */
int braid_layout_of(int cluster, const char *path, struct braid_layout *layout);

/**
 * Sets what new files in a directory get, or how a file lies that was never written.
 */
int braid_layout_set(int cluster, const char *path, const struct braid_layout *layout);

/**
 * Reads all pieces: one request to each I/O daemon, however many there are. Pieces may overlap in the file; the memory of no two
 * may. Returns the bytes that were read: fewer than asked for only where pieces are past the end of the file, whose memory stays
 * as it is.
 */
ssize_t braid_read_list(int file,
                        const struct braid_piece *pieces,
                        size_t count);

/**
 * Writes all pieces: one request to each I/O daemon, however many there are. Where pieces overlap in the file the later one of the list
 * is there after it.
 */
ssize_t braid_write_list(int file,
                         const struct braid_piece *pieces,
                         size_t count);

/**
 * As truncate(2).
 */
int braid_truncate(int cluster, const char *path, int64_t bytes);

/**
 * As chmod(2).
 */
int braid_chmod(int cluster, const char *path, mode_t mode);

/**
 * As chown(2): (uid_t)-1 and (gid_t)-1 leave one alone.
 */
int braid_chown(int cluster, const char *path, uid_t owner, gid_t group);

/**
 * As utimensat(2): times[0] of the last read, times[1] of the last write; UTIME_NOW and UTIME_OMIT are understood. NULL sets
 * both to now. Now is the server's.
 */
int braid_utimens(int cluster,
                  const char *path,
                  const struct timespec *times);

/**
 * As opendir(3). Returns a descriptor for braid_readdir and braid_closedir, or -1.
 */
int braid_opendir(int cluster, const char *path);

/**
 * The next entry: 1 and the entry, 0 at the end, -1 for a failure. A listing under concurrent change has every untouched name
 * exactly once.
 */
int braid_readdir(int directory,
                  struct braid_dirent *entry);

/**
 * The listing goes on after the entry that had this cookie; 0 for the beginning.
 */
int braid_seekdir(int directory, uint64_t cookie);

/**
 * As closedir(3).
 */
int braid_closedir(int directory);

/**
 * As link(2): gives the file `from` the further name `to`.
 */
int braid_link(int cluster, const char *from, const char *to);

/**
 * As symlink(2): makes `path` a symbolic link to `target`.
 */
int braid_symlink(int cluster, const char *target, const char *path);

/**
 * As readlink(2): how many bytes of the target are in the buffer; no end is put behind them.
 */
ssize_t braid_readlink(int cluster, const char *path, char *buffer, size_t bytes);

/**
 * As mkdir(2).
 */
int braid_mkdir(int cluster, const char *path, mode_t mode);

/**
 * As rmdir(2).
 */
int braid_rmdir(int cluster, const char *path);

/**
 * As unlink(2).
 */
int braid_unlink(int cluster, const char *path);

/**
 * As rename(2): atomic to every observer; `to` is replaced.
 */
int braid_rename(int cluster, const char *from, const char *to);

/**
 * As stat(2): attributes; of what a symbolic link points to.
 */
int braid_stat(int cluster, const char *path, struct stat *result);

/**
 * As lstat(2): attributes; of a symbolic link itself.
 */
int braid_lstat(int cluster, const char *path, struct stat *result);

/**
 * As fstat(2), of a file or a directory.
 */
int braid_fstat(int file, struct stat *result);

/**
 * As access(2): R_OK, W_OK, X_OK together, or F_OK.
 */
int braid_access(int cluster, const char *path, int mode);

/**
 * Room in the file system of a cluster.
 */
int braid_statfs(int cluster, struct braid_space *result);

/**
 * As getxattr(2): the value of an extended attribute of what `path` leads to; the name with its `user.` or other prefix. Returns how
 * many bytes it has, without storing them when `bytes` is 0; ERANGE when they do not fit, ENODATA when there is none of the name.
 */
ssize_t braid_getxattr(int cluster,
                       const char *path,
                       const char *name,
                       void *value,
                       size_t bytes);

/**
 * As setxattr(2): sets an extended attribute; flags: 0, or XATTR_CREATE (EEXIST when it is there) or XATTR_REPLACE (ENODATA when it
 * is not).
 */
int braid_setxattr(int cluster,
                   const char *path,
                   const char *name,
                   const void *value,
                   size_t bytes,
                   int flags);

/**
 * As listxattr(2): the names of all extended attributes of what `path` leads to, each with the 0 that ends it, one after the other.
 * Returns how many bytes they have, without storing them when `bytes` is 0; ERANGE when they do not fit.
 */
ssize_t braid_listxattr(int cluster,
                        const char *path,
                        char *list,
                        size_t bytes);

/**
 * As removexattr(2): removes an extended attribute; ENODATA when there is none of the name.
 */
int braid_removexattr(int cluster, const char *path, const char *name);

/**
 * The 1996 paper's partition: from `offset`, `group` bytes in every `stride`. NULL for a failure, as all that make views. A view
 * is freed with braid_view_free.
 */
struct braid_view *braid_view_strided(int64_t offset,
                                      int64_t group,
                                      int64_t stride);

/**
 * A list of extents of the file, ascending, seen once.
 */
struct braid_view *braid_view_extents(const struct braid_extent *extents, size_t count);

/**
 * A block of an array in C order (last index fastest) whose first byte is at `displacement`: `dimensions` sizes, sizes of the
 * block and its starts, all in elements of `element_bytes`.
 */
struct braid_view *braid_view_subarray(int64_t displacement,
                                       size_t dimensions,
                                       const uint64_t *sizes,
                                       const uint64_t *block,
                                       const uint64_t *starts,
                                       uint64_t element_bytes);

/**
 * What a task has of an array in C order (last index fastest) that is dealt out in blocks, round after round, and whose first byte is
 * at `displacement`: for each of `dimensions` dimensions its size, the size of a block, how many tasks it is dealt to and which of them
 * this one is, from 0; sizes in elements of `element_bytes`. A dimension of one task is whole. EINVAL for a task that has no element.
 */
struct braid_view *braid_view_block_cyclic(int64_t displacement,
                                           size_t dimensions,
                                           const uint64_t *sizes,
                                           const uint64_t *blocks,
                                           const uint64_t *tasks,
                                           const uint64_t *task,
                                           uint64_t element_bytes);

/**
 * A view of any nesting: the pattern is laid at `displacement` and again every `extent` bytes.
 */
struct braid_view *braid_view_nested(int64_t displacement,
                                     int64_t extent,
                                     const struct braid_pattern *pattern);

/**
 * Frees a view; NULL is nothing. Files that see through it go on.
 */
void braid_view_free(struct braid_view *view);

/**
 * Where in the file the byte at a position of the view's stream lies, or -1.
 */
int64_t braid_view_to_file(const struct braid_view *view, int64_t at);

/**
 * At which position of the view's stream a byte of the file is seen; -1 with ENXIO when it is not seen.
 */
int64_t braid_view_from_file(const struct braid_view *view,
                             int64_t offset);

/**
 * How many bytes of the view's stream lie below an offset of the file.
 */
int64_t braid_view_bytes_below(const struct braid_view *view, int64_t offset);

/**
 * This many contiguous bytes. NULL for a failure, as all that make patterns. A pattern is freed with braid_pattern_free; one that
 * is built from it has a copy.
 */
struct braid_pattern *braid_pattern_bytes(uint64_t bytes);

/**
 * `count` copies of a pattern, each `stride` bytes after the one before. One copy is the pattern itself.
 */
struct braid_pattern *braid_pattern_vector(uint64_t count,
                                           uint64_t stride,
                                           const struct braid_pattern *child);

/**
 * Patterns at ascending offsets that do not overlap.
 */
struct braid_pattern *braid_pattern_struct(const uint64_t *offsets,
                                           const struct braid_pattern *const *patterns,
                                           size_t count);

/**
 * A list of extents, ascending, without overlap.
 */
struct braid_pattern *braid_pattern_extents(const struct braid_extent *extents, size_t count);

/**
 * Frees a pattern; NULL is nothing.
 */
void braid_pattern_free(struct braid_pattern *pattern);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BRAID_H */
