// Package sandbox confines one command: what it may read, write, signal and connect to, and how
// many resources it may use.
//
// It may import none of our packages, and go-landlock besides the standard library. Only
// internal/supervise uses it.
//
// The one thing to know: the sandbox is applied in the child that becomes the command, after the
// fork and before the exec, and from then on the kernel enforces it for the command and all its
// descendants. No process of ours has to be alive to enforce it, and neither the runtime nor the
// supervisor is restricted by it.
//
//	supervisor ──fork into mount and IPC namespaces, exec──▶ stage: scratch, view, Landlock,
//	    capabilities, limits, seccomp ──exec──▶ command
//
//	supervisor ──fork into all namespaces, exec──▶ init: scratch, view, loopback ──fork, exec──▶
//	    stage: Landlock, capabilities, limits, seccomp ──exec──▶ command
//
// The first line is the profile workspace, the second one isolated. On a machine that permits no
// mount namespace, workspace does without the view. If another part cannot be applied, the start
// fails with an error that says what is missing, unless the host set Unsafe.
package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Profile says how strictly a command is confined. The zero value is None.
type Profile string

// The profiles. Each includes the one before it.
const (
	// None confines nothing: the command has the rights of this process.
	None Profile = "none"
	// Workspace allows a command to write to its workspace and to read what programs need to run.
	// The network stays accessible.
	Workspace Profile = "workspace"
	// Isolated adds user, pid, mount, network, IPC and host name namespaces: the command sees
	// nothing else.
	Isolated Profile = "isolated"
)

// View says how the profile Workspace shows a command its own file system, with a /tmp, a /dev/shm
// and local sockets that no other process shares. Try finds out what the machine permits.
type View string

// The ways, best first. Isolated always has a view, and ignores them.
const (
	ViewOfRoot View = "root" // in mount and IPC namespaces; needs CAP_SYS_ADMIN
	ViewOfUser View = "user" // the same below a user namespace
	// NoView: Landlock alone restricts files. /tmp and /dev/shm are then not writable, and there
	// are no local sockets, since Landlock does not cover them.
	NoView View = ""
)

// Check refuses an unknown profile.
func (p Profile) Check() error {
	switch p {
	case "", None, Workspace, Isolated:
		return nil
	}
	return fmt.Errorf("sandbox: unknown profile %q: want none, workspace or isolated", string(p))
}

// Confines reports whether p confines commands at all.
func (p Profile) Confines() bool { return p != "" && p != None }

// The defaults of Limits.
const (
	DefaultProcesses   = 512
	DefaultMemoryBytes = 8 << 30
	DefaultOpenFiles   = 1024
	DefaultFileBytes   = 4 << 30
	DefaultCPU         = time.Hour
	DefaultDiskBytes   = 16 << 30
)

// Limits are the resource limits of a confined command. For each limit, zero means the default, and
// a negative value no limit.
type Limits struct {
	// Of the whole tree; Isolated cannot enforce fewer than 301 exactly.
	Processes int `json:"processes"`
	// Memory in use by all processes together. Address space is not limited: programs reserve much
	// that they never use, a WebAssembly memory of Node alone 8 GiB.
	MemoryBytes int64         `json:"memory_bytes"`
	OpenFiles   int           `json:"open_files"` // descriptors of each process
	FileBytes   int64         `json:"file_bytes"` // size of each file
	CPU         time.Duration `json:"cpu_ns"`     // processor time of each process
	DiskBytes   int64         `json:"disk_bytes"` // growth of workspace, home and temporary files together
}

// WithDefaults replaces zero by the defaults, and then "no limit" by zero.
func (l Limits) WithDefaults() Limits {
	l.Processes = limitOrDefault(l.Processes, DefaultProcesses)
	l.MemoryBytes = limitOrDefault(l.MemoryBytes, DefaultMemoryBytes)
	l.OpenFiles = limitOrDefault(l.OpenFiles, DefaultOpenFiles)
	l.FileBytes = limitOrDefault(l.FileBytes, DefaultFileBytes)
	l.CPU = limitOrDefault(l.CPU, DefaultCPU)
	l.DiskBytes = limitOrDefault(l.DiskBytes, DefaultDiskBytes)
	return l
}

func limitOrDefault[N int | int64 | time.Duration](n, zero N) N {
	if n == 0 {
		return zero
	}
	return max(n, 0)
}

// Config is the sandbox of all commands of a host. The zero value confines nothing.
type Config struct {
	Profile Profile
	// Unsafe allows a command to run although this kernel cannot enforce the whole profile. The
	// record of each run says what was enforced.
	Unsafe bool
	Limits Limits
	// Reads are directories and files that commands may read and execute besides those of the
	// system, for example a tool chain or a cache. They are absolute paths; missing ones are
	// ignored. None may contain secrets, or a directory in which others create sockets: a view
	// hides only those that are there when the command starts.
	Reads []string
}

// Check says what is wrong with c, for its author.
func (c Config) Check() error {
	if err := c.Profile.Check(); err != nil {
		return err
	}
	for _, path := range c.Reads {
		if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
			return fmt.Errorf("sandbox: invalid path %q in Reads: want an absolute path other than the root", path)
		}
	}
	return nil
}

// Order is everything that a stage needs to know. It is passed as JSON in the command file and in a
// pipe. Strings from outside are encoded as bytes, because JSON would replace invalid UTF-8.
type Order struct {
	Profile   Profile  `json:"profile"`
	View      View     `json:"view,omitempty"`
	Unsafe    bool     `json:"unsafe,omitempty"`
	Limits    Limits   `json:"limits"` // with defaults applied: zero means no limit
	Reads     []string `json:"reads,omitempty"`
	Workspace []byte   `json:"workspace"` // the writable directory, as a real path
	// The directory above HOME and the temporary files, as a real path, which no command can write
	// to; created by the stage.
	Scratch []byte `json:"scratch"`
	Kept    bool   `json:"kept,omitempty"` // Scratch outlives the command: several commands share it

	// The local sockets of the machine in what may be read, as real paths, which a view hides. They
	// are found at the launch.
	Sockets [][]byte `json:"sockets,omitempty"`

	Program []byte   `json:"program,omitempty"`
	Argv    [][]byte `json:"argv,omitempty"`
	Env     [][]byte `json:"env,omitempty"`
	Dir     []byte   `json:"dir,omitempty"`

	Trial bool `json:"trial,omitempty"` // apply the sandbox, but run nothing
	// Pid of the process that must still be the parent when the command starts.
	Parent int `json:"parent,omitempty"`
}

// HasView reports whether the command has its own file system.
func (o Order) HasView() bool { return o.Profile == Isolated || o.View != NoView }

// Refusal is the reason why a command was not started: the sandbox or the final exec failed.
type Refusal struct {
	Code int // the exit status of a shell: 126 or 127
	Text string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// Unenforceable is the kind of a refusal because this machine cannot enforce the sandbox.
var Unenforceable = errors.New("the sandbox cannot be enforced on this machine")

// Fact says whether this machine can enforce one part of the sandbox.
type Fact struct {
	Part     string // a short name
	Enforced bool
	Why      string // what shows it, or what is missing
}

// ViewPart is the Fact that says whether the profile Workspace has a View.
const ViewPart = "own /tmp, /dev/shm and local sockets in the profile workspace"
