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

// The grace periods if those of Config are zero.
const (
	DefaultGrace    = 10 * time.Second
	DefaultEndGrace = supervise.DefaultGrace
)

// defaultPath is the PATH of a command if this process has none.
const defaultPath = "PATH=/usr/local/bin:/usr/bin:/bin"

// Supervise must be the first statement of main and of TestMain. It returns at once, unless this
// process was started as the supervisor of a command: then it acts as supervisor and never returns.
// Code before it runs in every supervisor, too.
func Supervise() { supervise.Entry() }

// Config configures where and how commands run.
type Config struct {
	Runner     supervise.Runner // nil: the default runner
	Supervisor string           // a program that calls Supervise first; empty: this program
	RunsDir    string           // directory of the run directories; required
	Dir        string           // the working directory of commands; required
	// Complete environment, as name=value; nil: PATH, HOME, LANG and TMPDIR of this process.
	Env   []string
	Grace time.Duration // between SIGTERM and SIGKILL when a call is stopped; 0: DefaultGrace
	// Between SIGTERM and SIGKILL when a command reaches its timeout_seconds, and for processes
	// that it left behind; 0: DefaultEndGrace.
	EndGrace time.Duration
	Deadline time.Duration // of a call without timeout_seconds; 0: tool.DefaultDeadline, 2 h

	// Profile confines commands to Dir; empty: no confinement. A custom Runner has its own profile,
	// so this one must then be empty.
	Profile Profile
	// Unsafe, Limits and Reads are those of supervise.Config, and are used only with a Profile.
	Unsafe bool
	Limits Limits
	Reads  []string
	// HomesDir is the directory in which each session of confined commands has HOME and /tmp, which
	// last until RemoveHome. Empty: each command has new ones. It must be outside of every Dir.
	HomesDir string
	// Advice says what an operator can do about something that the sandbox refuses, for the model
	// to pass on; {path} stands for the path that was refused. Empty: advice for this Config.
	Advice string
	// SecretAdvice is Advice about a secret that nobody has allowed; {name} stands for its name.
	SecretAdvice string
}

// New creates the tool bash.
//
// It fails if commands could not survive this process: in a program that neither calls [Supervise]
// nor sets Supervisor, and on systems other than Linux (supervise.Unsupported). It also fails if
// this machine cannot enforce the Profile (supervise.Unenforceable).
func New(c Config) (*Bash, error) {
	b := &Bash{runner: c.Runner, env: c.Env, grace: c.Grace, endGrace: c.EndGrace, advice: cmp.Or(c.Advice, defaultAdvice),
		secretAdvice: cmp.Or(c.SecretAdvice, defaultSecretAdvice)}
	if c.RunsDir == "" || c.Dir == "" {
		return nil, errors.New("bash: RunsDir and Dir are required")
	}
	var err error
	if b.runs, err = filepath.Abs(c.RunsDir); err != nil {
		return nil, fmt.Errorf("bash: resolve RunsDir: %w", err)
	}
	if b.dir, err = filepath.Abs(c.Dir); err != nil {
		return nil, fmt.Errorf("bash: resolve Dir: %w", err)
	}
	if c.HomesDir != "" {
		if b.homes, err = filepath.Abs(c.HomesDir); err != nil {
			return nil, fmt.Errorf("bash: resolve HomesDir: %w", err)
		}
	}
	if b.env == nil {
		b.env = safeEnv()
	}
	if err := checkEnv(b.env); err != nil {
		return nil, err
	}
	if c.Deadline < 0 {
		return nil, fmt.Errorf("bash: the deadline %v is negative: use a positive duration, or 0 for %v", c.Deadline, tool.DefaultDeadline)
	}
	b.spec = describe(cmp.Or(c.Deadline, tool.DefaultDeadline))
	if short := min(b.grace, b.endGrace); short < 0 {
		return nil, fmt.Errorf("bash: the grace period %v is negative", short)
	}
	b.grace, b.endGrace = cmp.Or(b.grace, DefaultGrace), cmp.Or(b.endGrace, DefaultEndGrace)
	if b.runner != nil && c.Profile.Confines() {
		return nil, errors.New("bash: Profile cannot be combined with Runner: set the profile in the supervise.Config of the Runner")
	}
	if b.runner == nil {
		// supervise itself knows whether Supervise was called, and fails without it.
		b.runner, err = supervise.New(supervise.Config{
			Supervisor: c.Supervisor, Profile: c.Profile, Unsafe: c.Unsafe, Limits: c.Limits, Reads: c.Reads,
		})
		if errors.Is(err, supervise.Unenforceable) {
			return nil, fmt.Errorf("bash is not available with the profile %s: %w", c.Profile, err)
		}
		if err != nil {
			return nil, fmt.Errorf("bash is not available: call shell.Supervise first in main, or set shell.Config.Supervisor: %w", err)
		}
	}
	return b, nil
}

// safeEnv returns the variables that nearly every program needs, by name. Nothing else of our
// environment is passed to a command (S10): no LD_PRELOAD, no BASH_ENV, no secret.
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
			return fmt.Errorf("bash: the variable %q must have the form name=value", name)
		}
	}
	return nil
}
