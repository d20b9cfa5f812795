// libmicrohttpd's variadic functions and size macros, which Swift cannot see.
#ifndef CMICROHTTPD_SHIM_H
#define CMICROHTTPD_SHIM_H

#include <microhttpd.h>
#include <stdio.h>

static inline struct MHD_Daemon *cmhd_start(unsigned int flags, MHD_AccessHandlerCallback handler,
                                            void *context, struct MHD_OptionItem *options) {
    return MHD_start_daemon(flags, 0, NULL, NULL, handler, context,
                            MHD_OPTION_ARRAY, options, MHD_OPTION_END);
}

static inline const union MHD_ConnectionInfo *cmhd_connection_info(struct MHD_Connection *connection,
                                                                   enum MHD_ConnectionInfoType type) {
    return MHD_get_connection_info(connection, type);
}

static inline const union MHD_DaemonInfo *cmhd_daemon_info(struct MHD_Daemon *daemon,
                                                           enum MHD_DaemonInfoType type) {
    return MHD_get_daemon_info(daemon, type);
}

/// Return values of a content reader at the end of the body, and if the body cannot be completed.
static inline ssize_t cmhd_end_of_stream(void) { return MHD_CONTENT_READER_END_OF_STREAM; }
static inline ssize_t cmhd_end_with_error(void) { return MHD_CONTENT_READER_END_WITH_ERROR; }

#endif
