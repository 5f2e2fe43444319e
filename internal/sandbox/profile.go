// Package sandbox confines one command: what it may read, write, signal, reach and use up.
//
// It imports nothing of ours and go-landlock besides the standard library. Only internal/supervise uses it.
//
// The one thing to know: a sandbox is put on in the child that becomes the command, after the fork and before the
// exec, and the kernel keeps it for ever and for all descendants. So nothing has to live to keep it: neither the
// runtime, nor the supervisor, both of which go on writing their own files.
//
//	supervisor ──fork, exec──▶ stage: scratch, Landlock, capabilities, limits, seccomp ──exec──▶ command
//
//	supervisor ──fork into new namespaces, exec──▶ init: mounts, loopback ──fork, exec──▶ stage ──exec──▶ command
//
// The first line is the profile workspace, the second one isolated. What cannot be put on ends the start, with a
// sentence that says what is missing, unless the host said Unsafe.
package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Profile is how much a command is confined. The zero value is None.
type Profile string

// The profiles, each of which has all that the one before it has.
const (
	// None confines nothing: a command has the rights of this process.
	None Profile = "none"
	// Workspace lets a command write its workspace and read what programs need to run; the network stays open.
	Workspace Profile = "workspace"
	// Isolated adds user, pid, mount, network, IPC and host name namespaces: nothing else is there to be seen.
	Isolated Profile = "isolated"
)

// Check refuses a word that is no profile.
func (p Profile) Check() error {
	switch p {
	case "", None, Workspace, Isolated:
		return nil
	}
	return fmt.Errorf("sandbox: there is no profile %q: take none, workspace or isolated", string(p))
}

// Confines reports whether p is more than None.
func (p Profile) Confines() bool { return p != "" && p != None }

// What a zero field of Limits means. The memory bound is far above what a large build takes, because programs reserve
// address space that they never use.
const (
	DefaultProcesses   = 512
	DefaultMemoryBytes = 8 << 30
	DefaultOpenFiles   = 1024
	DefaultFileBytes   = 4 << 30
	DefaultCPU         = time.Hour
	DefaultDiskBytes   = 16 << 30
)

// Limits bound what a confined command uses up. Zero is the default of each, negative is no limit.
type Limits struct {
	Processes   int           `json:"processes"`    // of the whole tree; 301 is the least that Isolated can keep exactly
	MemoryBytes int64         `json:"memory_bytes"` // address space of each process; resident memory of all together
	OpenFiles   int           `json:"open_files"`   // descriptors of each process
	FileBytes   int64         `json:"file_bytes"`   // size of each file
	CPU         time.Duration `json:"cpu_ns"`       // processor time of each process
	DiskBytes   int64         `json:"disk_bytes"`   // growth of workspace and scratch folder together
}

// WithDefaults fills in what zero means; no limit becomes zero.
func (l Limits) WithDefaults() Limits {
	l.Processes = bound(l.Processes, DefaultProcesses)
	l.MemoryBytes = bound(l.MemoryBytes, DefaultMemoryBytes)
	l.OpenFiles = bound(l.OpenFiles, DefaultOpenFiles)
	l.FileBytes = bound(l.FileBytes, DefaultFileBytes)
	l.CPU = bound(l.CPU, DefaultCPU)
	l.DiskBytes = bound(l.DiskBytes, DefaultDiskBytes)
	return l
}

func bound[N int | int64 | time.Duration](n, zero N) N {
	if n == 0 {
		return zero
	}
	return max(n, 0)
}

// Config is what a host says about the sandbox of all its commands. The zero value confines nothing.
type Config struct {
	Profile Profile
	// Unsafe lets a command run where this kernel cannot keep the profile, with what it can keep. The record of each
	// run says what that was.
	Unsafe bool
	Limits Limits
	// Reads are folders and files that commands may read and execute besides those of the system: a tool chain, a
	// cache. Absolute paths; one that is missing is left out. None may hold what a command is not to know, nor a socket: a
	// mount that is read-only does not keep Isolated from connecting to it.
	Reads []string
}

// Check says what is wrong with c, in words for its author.
func (c Config) Check() error {
	if err := c.Profile.Check(); err != nil {
		return err
	}
	for _, path := range c.Reads {
		if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
			return fmt.Errorf("sandbox: Reads holds %q: it has to be an absolute path, and not the root", path)
		}
	}
	return nil
}

// Order is all that a stage needs to know. It travels as JSON, in the command file and in a pipe. Strings that come from
// outside travel as bytes, because JSON would replace those that are not UTF-8.
type Order struct {
	Profile   Profile  `json:"profile"`
	Unsafe    bool     `json:"unsafe,omitempty"`
	Limits    Limits   `json:"limits"` // with defaults: zero is no limit
	Reads     []string `json:"reads,omitempty"`
	Workspace []byte   `json:"workspace"` // what may be written, real path
	Scratch   []byte   `json:"scratch"`   // a folder of the run's own, for HOME and TMPDIR; made by the stage

	Program []byte   `json:"program,omitempty"`
	Argv    [][]byte `json:"argv,omitempty"`
	Env     [][]byte `json:"env,omitempty"`
	Dir     []byte   `json:"dir,omitempty"`

	Trial  bool `json:"trial,omitempty"`  // put everything on, run nothing
	Parent int  `json:"parent,omitempty"` // who is to be there still when the command begins
}

// Refusal is why a command was not started: by the sandbox, or by the exec at its end.
type Refusal struct {
	Code int // the status that a shell gives: 126 or 127
	Text string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// Unenforceable is the kind of a refusal by a sandbox that this machine cannot keep.
var Unenforceable = errors.New("the sandbox cannot be kept on this machine")

// Fact is one thing that this machine can keep, or cannot.
type Fact struct {
	What  string // in a few words
	Holds bool
	Why   string // what shows it, or what is missing
}
