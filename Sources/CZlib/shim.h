// A typed door to zlib's macro; everything else is called as it is.
#include <zlib.h>

static inline int czlib_inflate_init(z_stream *stream, int window_bits) {
    return inflateInit2(stream, window_bits);
}
