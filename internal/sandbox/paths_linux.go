package sandbox

// etcPaths are the parts of the system's configuration that programs need. The
// rest of the folder is left out: it has keys of the host, and passwords of its
// services.
var etcPaths = []string{"passwd", "group", "nsswitch.conf", "hosts", "host.conf", "hostname", "localtime", "timezone", "os-release", "lsb-release", "debian_version",
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "ca-certificates", "ca-certificates.conf",
	"pki/tls/certs", "pki/ca-trust/extracted", "crypto-policies", "mime.types", "protocols", "services", "shells", "profile", "bash.bashrc", "inputrc", "terminfo",
	"locale.alias", "locale.conf", "default/locale", "gai.conf", "python3", "java", "perl", "fonts", "magic", "vim", "nanorc", "login.defs"}

// caches are what builds fill. A confined program can read them, and what it
// writes is gone when it ends: a cache that it could change would be code that a
// build outside runs.
var caches = []string{".cache/go-build", ".cache/pip", ".cache/uv", ".cache/yarn", ".npm/_cacache", ".cache/ms-playwright", ".cache/node"}

// harmlessWhenAbsent are those of Protected that need no guard while they do not
// exist: git reads them only when its configuration says so.
var harmlessWhenAbsent = []string{".git/config", ".git/config.worktree"}
