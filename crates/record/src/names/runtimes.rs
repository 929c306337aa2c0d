//! Locks inside libc, by the functions that acquire them: replacing `pthread_mutex_t` does not
//! affect them, but each can be avoided.

use crate::record::origin::Origin;

/// Functions that take one lock of libc, and what to do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// The data that the lock protects, in words that follow "libc's lock of".
    pub guards: &'static str,
    /// Origin of the lock.
    pub origin: Origin,
    /// The functions, without leading underscores; a star matches any suffix.
    functions: &'static [&'static str],
    /// Advice: the alternative to calling them.
    pub advice: &'static str,
}

/// All locks inside libc.
const RUNTIMES: [Runtime; 14] = [
    Runtime {
        guards: "the random numbers",
        origin: Origin::LibcInternal,
        functions: &[
            "rand",
            "random",
            "srand",
            "srandom",
            "initstate",
            "setstate",
            "drand48",
            "lrand48",
            "mrand48",
        ],
        advice: "Give each thread a generator of its own (rand_r, std::mt19937, arc4random); \
                 another lock cannot help.",
    },
    Runtime {
        guards: "the time zone",
        origin: Origin::LibcInternal,
        functions: &[
            "localtime",
            "localtime_r",
            "mktime",
            "timelocal",
            "tzset",
            "strftime*",
            "wcsftime*",
            "gmtime",
            "gmtime_r",
            "ctime",
            "ctime_r",
            "tz_convert",
            "localtime64_r",
        ],
        advice: "Convert a time once for each second and thread and keep the result; another lock \
                 cannot help.",
    },
    Runtime {
        guards: "the heap",
        origin: Origin::LibcInternal,
        functions: &[
            "malloc",
            "libc_malloc",
            "calloc",
            "realloc",
            "free",
            "libc_free",
            "cfree",
            "memalign",
            "aligned_alloc",
            "posix_memalign",
            "valloc",
            "reallocarray",
            "malloc_trim",
            "mallinfo*",
            "strdup",
            "operator new*",
            "operator delete*",
            "_Znwm",
            "_Znam",
            "_ZdlPv*",
            "_ZdaPv*",
        ],
        advice: "Keep memory for reuse in each thread, allow more arenas (MALLOC_ARENA_MAX, \
                 GLIBC_TUNABLES=glibc.malloc.arena_max) or take another allocator (jemalloc, \
                 mimalloc, tcmalloc); another lock cannot help.",
    },
    Runtime {
        guards: "a stdio stream",
        origin: Origin::LibcStream,
        functions: &[
            "printf",
            "fprintf",
            "vprintf",
            "vfprintf",
            "printf_chk",
            "fprintf_chk",
            "vfprintf_chk",
            "puts",
            "fputs",
            "fputc",
            "putc",
            "putchar",
            "fwrite",
            "fread",
            "fgets",
            "fgetc",
            "getc",
            "getchar",
            "getline",
            "getdelim",
            "fflush",
            "fseek*",
            "ftell*",
            "setvbuf",
            "scanf",
            "fscanf",
            "vfscanf",
            "flockfile",
            "perror",
            "fputs_unlocked",
            "IO_*",
        ],
        advice: "Format into a buffer of the thread and write it with one call, or give each \
                 thread a stream of its own; another lock cannot help.",
    },
    Runtime {
        guards: "the list of open streams",
        origin: Origin::LibcInternal,
        functions: &[
            "fopen*",
            "IO_link_in",
            "IO_un_link",
            "fclose",
            "fdopen",
            "freopen*",
            "popen",
            "pclose",
            "tmpfile*",
        ],
        advice: "Keep streams open, or open files with open(2); another lock cannot help.",
    },
    Runtime {
        guards: "a compiled regular expression",
        origin: Origin::LibcInternal,
        functions: &["regexec", "regcomp", "regfree", "re_search*", "re_match*"],
        advice: "Compile the expression once for each thread (regcomp); another lock cannot help.",
    },
    Runtime {
        guards: "a directory stream",
        origin: Origin::LibcInternal,
        functions: &["readdir*", "rewinddir", "seekdir", "telldir", "closedir"],
        advice: "Let one thread read a directory; another lock cannot help.",
    },
    Runtime {
        guards: "the loader",
        origin: Origin::LibcInternal,
        functions: &[
            "dlopen",
            "dlclose",
            "dlsym",
            "dlvsym",
            "dladdr*",
            "dl_iterate_phdr",
            "tls_get_addr*",
            "Unwind_Find_FDE",
            "cxa_throw",
            "Unwind_RaiseException",
            "Unwind_Backtrace",
        ],
        advice: "Look symbols up once, and do not throw exceptions or walk stacks in a hot path \
                 (glibc 2.35 and libgcc 12 find unwind tables without this lock); another lock \
                 cannot help.",
    },
    Runtime {
        guards: "the environment",
        origin: Origin::LibcInternal,
        functions: &["setenv", "putenv", "unsetenv", "clearenv", "getenv", "secure_getenv"],
        advice: "Read the environment once when the program starts; another lock cannot help.",
    },
    Runtime {
        guards: "name look-ups",
        origin: Origin::LibcInternal,
        functions: &[
            "getaddrinfo",
            "getnameinfo",
            "gethostby*",
            "getpw*",
            "getgr*",
            "getserv*",
            "nss_*",
            "res_*",
        ],
        advice: "Look names up once and keep the results; another lock cannot help.",
    },
    Runtime {
        guards: "the log",
        origin: Origin::LibcInternal,
        functions: &["syslog", "vsyslog", "syslog_chk", "openlog"],
        advice: "Hand messages to one thread that calls syslog; another lock cannot help.",
    },
    Runtime {
        guards: "exit handlers",
        origin: Origin::LibcInternal,
        functions: &["exit", "atexit", "cxa_atexit", "cxa_finalize", "quick_exit", "on_exit"],
        advice: "Let one thread end the program, after the others have ended.",
    },
    Runtime {
        guards: "the locale",
        origin: Origin::LibcInternal,
        functions: &[
            "setlocale",
            "newlocale",
            "freelocale",
            "duplocale",
            "uselocale",
            "nl_langinfo",
            "dcgettext",
            "dgettext",
            "gettext",
            "iconv_open",
            "iconv_close",
            "gconv_*",
            "nl_find_*",
        ],
        advice: "Set the locale once when the program starts; another lock cannot help.",
    },
    Runtime {
        guards: "new threads",
        origin: Origin::LibcInternal,
        functions: &["pthread_create", "pthread_atfork", "fork", "pthread_getattr_np"],
        advice: "Keep threads in a pool instead of starting one for each task; another lock cannot \
                 help.",
    },
];

/// Returns the lock that this function acquires.
pub fn runtime(function: &str) -> Option<&'static Runtime> {
    // Debug data has names such as `__GI__IO_puts`.
    let function =
        function.trim_start_matches('_').trim_start_matches("GI_").trim_start_matches('_');
    let is_named = |known: &&&str| function == known.trim_start_matches('_');
    let begins = |known: &&&str| {
        let begin = known.strip_suffix('*').map(|begin| begin.trim_start_matches('_'));
        begin.is_some_and(|begin| function.starts_with(begin))
    };
    let named = RUNTIMES.iter().find(|one| one.functions.iter().any(|known| is_named(&known)));
    named.or_else(|| RUNTIMES.iter().find(|one| one.functions.iter().any(|known| begins(&known))))
}

/// Returns the standard stream of Rust's library that the lock with this name protects, and a call
/// that acquires it.
pub fn stream_of_rust(lock: &str) -> Option<[&'static str; 2]> {
    let name = lock.strip_prefix("std::io::stdio::")?;
    let streams = [
        ("STDOUT", ["standard output", "println!()"]),
        ("STDERR", ["standard error output", "eprintln!()"]),
        ("stdin", ["standard input", "read_line()"]),
    ];
    streams.into_iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, stream)| stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_libc_name_the_lock_that_they_take() {
        let guards = |name| runtime(name).map(|one| one.guards);
        assert_eq!(guards("rand"), Some("the random numbers"));
        assert_eq!(guards("__libc_malloc"), Some("the heap"));
        assert_eq!(guards("_Znwm"), Some("the heap"));
        assert_eq!(guards("__strftime_l"), Some("the time zone"));
        assert_eq!(guards("__GI_getaddrinfo"), Some("name look-ups"));
        assert_eq!(guards("pthread_mutex_lock"), None);
        assert_eq!(guards("random_walk"), None);
        let stream = |lock| stream_of_rust(lock).map(|[stream, _]| stream);
        assert_eq!(stream("std::io::stdio::STDOUT+0x8"), Some("standard output"));
        assert_eq!(stream("STDOUT"), None);
    }
}
