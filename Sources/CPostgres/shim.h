// libpq has no variadic function: its header is enough.
#include <libpq-fe.h>
