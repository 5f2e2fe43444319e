package supervise

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/sandbox"
)

// What a zero field of a Command means.
const (
	DefaultGrace          = 10 * time.Second
	DefaultDrain          = 2 * time.Second
	DefaultOutputMaxBytes = 64 << 20
	MinOutputMaxBytes     = 64 << 10
)

// Command is what a run executes. No shell is involved, and nothing is added to it.
type Command struct {
	// Argv is the program and its arguments. A program without a slash is looked up in the PATH of Env.
	Argv []string
	// Env is the whole environment, as name=value; nil is an empty one.
	Env []string
	// Dir is the working directory, an absolute path.
	Dir string
	// Workspace is what a confined command may write: an absolute path, Dir or above it; empty is Dir. Without a profile it
	// means nothing.
	Workspace string
	// Timeout, counted from the command's start, kills the tree; zero is none.
	Timeout time.Duration
	// Grace lies between SIGTERM and SIGKILL when somebody signals the supervisor by hand; zero is DefaultGrace.
	// A Stop brings its own.
	Grace time.Duration
	// Drain is how long the run waits for the end of the output after the command's first process has ended, for a
	// forgotten background process may hold it open; zero is DefaultDrain. Then the rest of the tree is killed.
	Drain time.Duration
	// OutputMaxBytes bounds what both streams together take on disk; zero is DefaultOutputMaxBytes, and less than
	// MinOutputMaxBytes is that. Half of it is for the beginning, and half for the end, which gives way to what comes later.
	// The command is never blocked by it.
	OutputMaxBytes int64
}

// Check says what is wrong with c, in words for the caller's author.
func (c Command) Check() error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return errors.New("supervise: the command names no program")
	}
	if !filepath.IsAbs(c.Dir) {
		return fmt.Errorf("supervise: the working directory %q is not an absolute path", c.Dir)
	}
	if c.Workspace != "" && !filepath.IsAbs(c.Workspace) {
		return fmt.Errorf("supervise: the workspace %q is not an absolute path", c.Workspace)
	}
	if c.Timeout < 0 || c.Grace < 0 || c.Drain < 0 || c.OutputMaxBytes < 0 {
		return errors.New("supervise: a limit of the command is negative")
	}
	for _, s := range append(append([]string{c.Dir, c.Workspace}, c.Argv...), c.Env...) {
		if strings.IndexByte(s, 0) >= 0 {
			return errors.New("supervise: an argument, a variable or a directory contains a zero byte")
		}
	}
	return nil
}

// withDefaults fills in what zero means.
func (c Command) withDefaults() Command {
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Drain == 0 {
		c.Drain = DefaultDrain
	}
	if c.OutputMaxBytes == 0 {
		c.OutputMaxBytes = DefaultOutputMaxBytes
	}
	return c
}

// commandFile is the file by which Start tells the supervisor what to run. Strings travel as bytes, because JSON would
// replace those that are not UTF-8.
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

	Sandbox *sandbox.Order `json:"sandbox,omitempty"` // without the command, which stands above
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

// stopFile is the durable request to end a run.
type stopFile struct {
	GraceMS     int64     `json:"grace_ms"`
	RequestedAt time.Time `json:"requested_at"`
}

// due is when the grace of the request is over, by the wall clock.
func (f stopFile) due() time.Time { return f.RequestedAt.Add(fromMS(f.GraceMS)) }

// toMS rounds up, so that a short limit does not become none.
func toMS(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return max(ms, 0)
}

// fromMS caps at what a Duration holds, and takes a negative number for zero.
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
