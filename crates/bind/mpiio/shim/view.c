/* File views. MPI-4.1 14.3. */
#include "shim.h"

#include <stdlib.h>
#include <strings.h>

/* Predefined types are used as they are: they cannot be freed. */
static MPI_Datatype kept(MPI_Datatype type) {
    MPI_Datatype copy = type;
    if (!is_named(type)) MPI_Type_dup(type, &copy);
    return copy;
}

static void let_go(MPI_Datatype *type) {
    if (*type != MPI_DATATYPE_NULL && !is_named(*type)) MPI_Type_free(type);
    *type = MPI_DATATYPE_NULL;
}

void drop_view(struct file *file) {
    if (file->seen >= 0) braid_close(file->seen);
    braid_view_free(file->shown.view);
    free(file->shown.listed);
    let_go(&file->etype);
    let_go(&file->filetype);
}

int shows_nothing(const struct file *file) { return !file->shown.view && !file->shown.listed; }

int place_of(const struct file *file, int64_t at, int64_t *place) {
    const struct listed *listed = file->shown.listed;
    if (listed && listed_is_past_all(listed, at))
        return error_of(MPI_ERR_ARG, file->path, "the offset is beyond the largest file size");
    *place = listed ? listed_to_file(listed, at) : braid_view_to_file(file->shown.view, at);
    return *place < 0 ? error_of_errno(file->path) : MPI_SUCCESS;
}

int64_t bytes_below(const struct file *file, int64_t offset) {
    if (shows_nothing(file)) return 0;
    if (file->shown.listed) return listed_bytes_below(file->shown.listed, offset);
    int64_t bytes = braid_view_bytes_below(file->shown.view, offset);
    return bytes < file->shown.once ? bytes : file->shown.once;
}

/* MPI-4.1 14.1.1: files opened for reading only may have types that show a byte twice. */
static int shown_of(struct file *file, MPI_Offset displacement, MPI_Datatype filetype,
                    struct shown *shown) {
    int code = view_of(displacement, filetype, 0, shown);
    if (code != MPI_SUCCESS && file->amode & MPI_MODE_RDONLY) {
        /* Too many entries for a collective call. */
        *shown = (struct shown){.piece_bytes = INT64_MAX, .entries = INT32_MAX, .once = INT64_MAX};
        if (listed_of(displacement, filetype, &shown->listed) == MPI_SUCCESS) return MPI_SUCCESS;
    }
    /* Some programs (PnetCDF) set types whose extent is less than their span, and use only the
     * first copy. */
    return code == MPI_SUCCESS ? code : view_of(displacement, filetype, 1, shown);
}

int set_view(struct file *file, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
             enum data_representation representation) {
    MPI_Count etype_bytes, filetype_bytes;
    MPI_Type_size_x(etype, &etype_bytes);
    MPI_Type_size_x(filetype, &filetype_bytes);
    if (etype_bytes == 0)
        return error_of(MPI_ERR_ARG, file->path, "the elementary type has 0 bytes");
    if (filetype_bytes % etype_bytes)
        return error_of(MPI_ERR_ARG, file->path,
                        "the file type is not a multiple of the elementary type");
    struct shown shown;
    int code = shown_of(file, displacement, filetype, &shown);
    if (code != MPI_SUCCESS) return code;
    int seen = shown.view ? braid_with_view(file->whole, shown.view) : -1;
    if (shown.view && seen < 0) {
        code = error_of_errno(file->path);
        braid_view_free(shown.view);
        return code;
    }
    drop_view(file);
    file->seen = seen;
    file->shown = shown;
    file->displacement = displacement;
    file->etype = kept(etype);
    file->filetype = kept(filetype);
    file->etype_bytes = etype_bytes;
    file->representation = representation;
    file->position = 0;
    return MPI_SUCCESS;
}

static int representation_of(struct file *file, const char *name, MPI_Datatype etype,
                             enum data_representation *found) {
    *found = NATIVE;
    /* All supported hosts have the same representation: internal is native. */
    if (!strcasecmp(name, "native") || !strcasecmp(name, "internal")) return MPI_SUCCESS;
    if (strcasecmp(name, "external32"))
        return error_of(MPI_ERR_UNSUPPORTED_DATAREP, file->path, name);
    MPI_Aint external;
    MPI_Count bytes;
    MPI_Type_size_x(etype, &bytes);
    *found = EXTERNAL32;
    if (MPI_Pack_external_size("external32", 1, etype, &external) != MPI_SUCCESS ||
        external != bytes)
        return error_of(MPI_ERR_UNSUPPORTED_DATAREP, file->path,
                        "a type has another size in external32");
    return MPI_SUCCESS;
}

static int checked(struct file *file, MPI_Offset *displacement, MPI_Datatype etype,
                   MPI_Datatype filetype, const char *name,
                   enum data_representation *representation) {
    if (etype == MPI_DATATYPE_NULL || filetype == MPI_DATATYPE_NULL)
        return error_of(MPI_ERR_TYPE, file->path, "a datatype is MPI_DATATYPE_NULL");
    if (*displacement == MPI_DISPLACEMENT_CURRENT && file->amode & MPI_MODE_SEQUENTIAL) {
        int64_t at;
        int code = shared_fetch_add(file, 0, &at);
        if (code != MPI_SUCCESS) return code;
        int64_t place = file->displacement;
        if (!shows_nothing(file)) code = place_of(file, at, &place);
        if (code != MPI_SUCCESS) return code;
        *displacement = place;
    }
    if (*displacement < 0) return error_of(MPI_ERR_ARG, file->path, "the displacement is negative");
    return representation_of(file, name, etype, representation);
}

DEFINE(set_view, MPI_File handle, MPI_Offset displacement, MPI_Datatype etype,
       MPI_Datatype filetype, const char *representation, MPI_Info info) {
    struct file *file = ours(handle);
    if (!file) return REAL(set_view)(handle, displacement, etype, filetype, representation, info);
    enum data_representation wanted = NATIVE;
    finish_all(file);
    int code = checked(file, &displacement, etype, filetype, representation, &wanted),
        is_shared = uses_shared(file);
    /* All ranks have read the pointer before it is reset; a pointer that no rank uses is at 0. */
    code = agreed_with(file, code, &is_shared);
    if (code == MPI_SUCCESS) code = set_view(file, displacement, etype, filetype, wanted);
    if (code == MPI_SUCCESS && is_shared && file->rank == 0) code = shared_set(file, 0);
    take_hints(file, info, NULL);
    return failed(file, agreed(file, code));
}

DEFINE(get_view, MPI_File handle, MPI_Offset *displacement, MPI_Datatype *etype,
       MPI_Datatype *filetype, char *representation) {
    struct file *file = ours(handle);
    if (!file) return REAL(get_view)(handle, displacement, etype, filetype, representation);
    *displacement = file->displacement;
    *etype = kept(file->etype);
    *filetype = kept(file->filetype);
    const char *name = file->representation == NATIVE ? "native" : "external32";
    for (size_t at = 0; (representation[at] = name[at]); at++) {}
    return MPI_SUCCESS;
}

DEFINE(get_byte_offset, MPI_File handle, MPI_Offset offset, MPI_Offset *at) {
    struct file *file = ours(handle);
    if (!file) return REAL(get_byte_offset)(handle, offset, at);
    int64_t position, found;
    int code = at_of(file, offset, &position);
    if (code == MPI_SUCCESS && shows_nothing(file))
        code = error_of(MPI_ERR_ARG, file->path, "the view shows nothing");
    if (code == MPI_SUCCESS) code = place_of(file, position, &found);
    if (code == MPI_SUCCESS) *at = found;
    return failed(file, code);
}
