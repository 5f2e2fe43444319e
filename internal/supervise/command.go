package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/sandbox"
)

// The defaults of a Command.
const (
	DefaultGrace          = 2 * time.Second
	DefaultDrain          = 2 * time.Second
	DefaultOutputMaxBytes = 64 << 20
	MinOutputMaxBytes     = 64 << 10
)

// Command is what a run executes. No shell is involved, and nothing is added to the command.
type Command struct {
	// Argv is the program and its arguments. A program without a slash is looked up in the PATH of
	// Env.
	Argv []string
	// Env is the whole environment as name=value; nil means empty.
	Env []string
	// Secrets are more variables, as name=value. They reach the supervisor through a pipe, so that
	// no file has them; the environment of the running command does.
	Secrets []string
	// Dir is the working directory, an absolute path.
	Dir string
	// Workspace is the directory that a confined command may write to: an absolute path, Dir or a
	// parent of it; empty means Dir. Without a profile it has no effect.
	Workspace string
	// Home is the directory above HOME and the temporary files of a confined command, an absolute
	// path. It is kept, so that several commands can share it; it must be outside the workspace.
	// Empty means one in the run directory, which is removed at the end of the command.
	Home string
	// Timeout ends the tree so long after the command's start; zero means no timeout.
	Timeout time.Duration
	// Grace is the time between SIGTERM and SIGKILL when the supervisor ends the tree by itself: at
	// the timeout, for what the command left behind, and when it is signalled by hand; zero means
	// DefaultGrace. Stop has its own grace.
	Grace time.Duration
	// Drain is how long the run waits for the end of the output and of the tree after the command's
	// first process has ended; zero means DefaultDrain. What runs then was left behind: it is
	// ended.
	Drain time.Duration
	// OutputMaxBytes limits the size of both streams together on disk; zero means
	// DefaultOutputMaxBytes, and a smaller value than MinOutputMaxBytes means that minimum. Half of
	// it keeps the beginning of the output, and half the end, in which newer output replaces older.
	// The limit never blocks the command.
	OutputMaxBytes int64
}

// Check says what is wrong with c, for the author of the calling code.
func (c Command) Check() error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return errors.New("supervise: the command has no program")
	}
	if !filepath.IsAbs(c.Dir) {
		return fmt.Errorf("supervise: the working directory %q is not an absolute path", c.Dir)
	}
	if c.Workspace != "" && !filepath.IsAbs(c.Workspace) {
		return fmt.Errorf("supervise: the workspace %q is not an absolute path", c.Workspace)
	}
	if c.Home != "" && !filepath.IsAbs(c.Home) {
		return fmt.Errorf("supervise: the home %q is not an absolute path", c.Home)
	}
	if c.Timeout < 0 || c.Grace < 0 || c.Drain < 0 || c.OutputMaxBytes < 0 {
		return errors.New("supervise: a limit of the command is negative")
	}
	for _, s := range slices.Concat([]string{c.Dir, c.Workspace, c.Home}, c.Argv, c.Env, c.Secrets) {
		if strings.IndexByte(s, 0) >= 0 {
			return errors.New("supervise: an argument, a variable or a directory contains a zero byte")
		}
	}
	return nil
}

// withDefaults replaces zero fields by their defaults.
func (c Command) withDefaults() Command {
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.Drain = cmp.Or(c.Drain, DefaultDrain)
	c.OutputMaxBytes = cmp.Or(c.OutputMaxBytes, DefaultOutputMaxBytes)
	return c
}

// commandFile is the file through which Start passes the command to the supervisor, without its
// secrets. Strings are
// encoded as bytes, because JSON would replace invalid UTF-8.
type commandFile struct {
	Version        int      `json:"version"`
	Host           string   `json:"host"`
	Argv           [][]byte `json:"argv"`
	Env            [][]byte `json:"env"`
	Dir            []byte   `json:"dir"`
	TimeoutMS      int64    `json:"timeout_ms"`
	GraceMS        int64    `json:"grace_ms"`
	DrainMS        int64    `json:"drain_ms"`
	OutputMaxBytes int64    `json:"output_max_bytes"`

	Sandbox *sandbox.Order `json:"sandbox,omitempty"` // without the command, which the fields above hold
}

func newCommandFile(host string, c Command) commandFile {
	c = c.withDefaults()
	return commandFile{
		Version: version, Host: host,
		Argv: toBytes(c.Argv), Env: toBytes(c.Env), Dir: []byte(c.Dir),
		TimeoutMS: toMS(c.Timeout), GraceMS: toMS(c.Grace), DrainMS: toMS(c.Drain),
		OutputMaxBytes: c.OutputMaxBytes,
	}
}

func (f commandFile) command() Command {
	return Command{
		Argv: toStrings(f.Argv), Env: toStrings(f.Env), Dir: string(f.Dir),
		Timeout: fromMS(f.TimeoutMS), Grace: fromMS(f.GraceMS), Drain: fromMS(f.DrainMS),
		OutputMaxBytes: f.OutputMaxBytes,
	}
}

// stopFile is the durable request to stop a run.
type stopFile struct {
	GraceMS     int64     `json:"grace_ms"`
	RequestedAt time.Time `json:"requested_at"`
}

// due is when the grace of the request ends, by the wall clock.
func (f stopFile) due() time.Time { return f.RequestedAt.Add(fromMS(f.GraceMS)) }

// toMS rounds up, so that a short limit does not become zero, which means none.
func toMS(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return max(ms, 0)
}

// fromMS caps at the largest Duration and converts a negative number to zero.
func fromMS(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

func toBytes(ss []string) [][]byte {
	bb := make([][]byte, len(ss))
	for i, s := range ss {
		bb[i] = []byte(s)
	}
	return bb
}

func toStrings(bb [][]byte) []string {
	ss := make([]string, len(bb))
	for i, b := range bb {
		ss[i] = string(b)
	}
	return ss
}
