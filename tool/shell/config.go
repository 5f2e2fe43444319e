package shell

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

// DefaultGrace is what a zero Config.Grace means.
const DefaultGrace = 10 * time.Second

// defaultPath is the PATH of a command where this process has none.
const defaultPath = "PATH=/usr/local/bin:/usr/bin:/bin"

// Supervise is the first line of main, and of TestMain. It returns at once, unless this process was started
// as the supervisor of a command: then it becomes one and never returns. Whatever runs before it runs in
// every supervisor too.
func Supervise() { supervise.Entry() }

// Config says where and how commands run.
type Config struct {
	Runner     supervise.Runner // nil: a real one
	Supervisor string           // a program that calls Supervise first; empty: this program
	RunsDir    string           // where the run directories are kept; required
	Dir        string           // the working directory of commands; required
	Env        []string         // the whole environment, as name=value; nil: PATH, HOME, LANG and TMPDIR of this process
	Grace      time.Duration    // between SIGTERM and SIGKILL when a call is stopped; 0: DefaultGrace
	Deadline   time.Duration    // after which a command is ended whose call names no timeout_seconds; 0: tool.DefaultDeadline, 2 h

	// Profile confines commands to Dir; empty: not at all. A Runner has its own, so it goes with a nil one only.
	Profile Profile
	// Unsafe, Limits and Reads are those of supervise.Config, and mean something with a Profile only.
	Unsafe bool
	Limits Limits
	Reads  []string
}

// New makes the tool bash.
//
// It refuses where commands could not outlive this process: in a program that neither calls [Supervise] nor
// names a Supervisor, and on a system that is not Linux (supervise.Unsupported). So it does where this machine cannot keep
// the Profile (supervise.Unenforceable).
func New(c Config) (*Bash, error) {
	b := &Bash{runner: c.Runner, env: c.Env, grace: c.Grace}
	if c.RunsDir == "" || c.Dir == "" {
		return nil, errors.New("bash: RunsDir and Dir must be set")
	}
	var err error
	if b.runs, err = filepath.Abs(c.RunsDir); err != nil {
		return nil, fmt.Errorf("bash: find RunsDir: %w", err)
	}
	if b.dir, err = filepath.Abs(c.Dir); err != nil {
		return nil, fmt.Errorf("bash: find Dir: %w", err)
	}
	if b.env == nil {
		b.env = safeEnv()
	}
	if err := checkEnv(b.env); err != nil {
		return nil, err
	}
	if c.Deadline < 0 {
		return nil, fmt.Errorf("bash: the deadline %v is negative: give a time, or 0 for %v", c.Deadline, tool.DefaultDeadline)
	}
	b.spec = describe(cmp.Or(c.Deadline, tool.DefaultDeadline))
	if b.grace < 0 {
		return nil, fmt.Errorf("bash: the grace %v is negative", b.grace)
	}
	if b.grace == 0 {
		b.grace = DefaultGrace
	}
	if b.runner != nil && c.Profile.Confines() {
		return nil, errors.New("bash: a Runner confines commands by its own profile: set it in supervise.Config, and leave Profile empty here")
	}
	if b.runner == nil {
		// That the entry was called is for supervise to know: it keeps the one fact, and refuses without it.
		b.runner, err = supervise.New(supervise.Config{
			Supervisor: c.Supervisor, Profile: c.Profile, Unsafe: c.Unsafe, Limits: c.Limits, Reads: c.Reads,
		})
		if errors.Is(err, supervise.Unenforceable) {
			return nil, fmt.Errorf("bash cannot be offered under the profile %s: %w", c.Profile, err)
		}
		if err != nil {
			return nil, fmt.Errorf("bash cannot be offered: call shell.Supervise first in main, or set shell.Config.Supervisor: %w", err)
		}
	}
	return b, nil
}

// safeEnv takes the variables that nearly every program needs, by name. Nothing else of our environment
// reaches a command (S10): no LD_PRELOAD, no BASH_ENV, no secret.
func safeEnv() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "PATH=") }) {
		env = append(env, defaultPath)
	}
	return env
}

func checkEnv(env []string) error {
	for _, v := range env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" || strings.ContainsRune(v, 0) {
			return fmt.Errorf("bash: the variable %q is not of the form name=value", name)
		}
	}
	return nil
}
