package sessionsql_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/sessionsql"
)

// durableIn names the directory in which the test program creates a database, under strace.
const durableIn = "PERDURE_SESSIONSQL_DURABLE_IN"

// traced is a system call that creates a name in a directory or syncs one, with the directory and
// the name, as strace prints it.
var traced = regexp.MustCompile(`^\d+ +(mkdirat|openat|fsync|fdatasync)\([^<(]+<([^>]*)>(?:, "([^"]*)"(.*))?`)

// TestDatabaseIsDurable: when the first statement of a session returns, each name on the path of
// its database was synced after it was created, and so survives a power failure.
func TestDatabaseIsDurable(t *testing.T) {
	t.Parallel()
	if root := os.Getenv(durableIn); root != "" {
		run(t, open(t, sessionsql.Config{Dir: filepath.Join(root, "data", "databases")}).For(owner), "CREATE TABLE t (x)")
		if err := os.Mkdir(filepath.Join(root, "answered"), 0o700); err != nil {
			t.Fatal(err)
		}
		return
	}
	if out, err := exec.Command("strace", "-qq", "-z", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("SQ1: what is synced is seen with strace, and the right to trace: %v: %s", err, out)
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "trace")
	again := exec.CommandContext(t.Context(), "strace", "-f", "-qq", "-z", "-y", "-s", "4096", "-e", "signal=none", "-e", "trace=mkdirat,openat,fsync,fdatasync", "-o", log,
		os.Args[0], "-test.run=^TestDatabaseIsDurable$")
	again.Env = append(os.Environ(), durableIn+"="+root)
	if out, err := again.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}

	var made []string
	waits := map[string]bool{} // created, and its directory not synced since
	for line := range strings.Lines(string(text)) {
		call := traced.FindStringSubmatch(line)
		if call == nil {
			continue
		}
		name := call[3]
		if !filepath.IsAbs(name) {
			name = filepath.Join(call[2], name)
		}
		below, err := filepath.Rel(root, name)
		switch {
		case err != nil || strings.HasPrefix(below, ".."):
		case strings.HasSuffix(call[1], "sync"):
			for one := range waits {
				if filepath.Dir(one) == below {
					delete(waits, one)
				}
			}
		case below == "answered":
			for one := range waits {
				t.Errorf("%s is there when it is answered, and would not be after a power cut", one)
			}
		case (call[1] == "mkdirat" || strings.Contains(call[4], "O_EXCL")) && strings.HasPrefix(below, "data"):
			made = append(made, below)
			waits[below] = true
		}
	}
	if want := []string{"data", "data/databases", "data/databases/" + string(owner), "data/databases/" + string(owner) + "/main.db"}; !slices.Equal(made, want) {
		t.Errorf("got %q, want %q: %s", made, want, text)
	}
}
