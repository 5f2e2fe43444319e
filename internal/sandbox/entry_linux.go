package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// The exit statuses of a shell for a command that cannot be executed, or is not found.
const (
	cannotExecute = 126
	notFound      = 127
)

// Entry returns immediately, unless this process was started as a stage; then it becomes the
// command, or its init, and never returns. Call it before anything else.
func Entry() {
	stage := os.Getenv(stageVariable)
	if stage == "" {
		return
	}
	// Some settings apply to one thread only, and that thread must do the exec.
	runtime.LockOSThread()
	for _, fd := range []int{orderFD, reportFD} {
		syscall.CloseOnExec(fd)
	}
	r := &reporter{encode: json.NewEncoder(os.NewFile(reportFD, "report"))}
	orders := os.NewFile(orderFD, "order")
	var o Order
	if err := json.NewDecoder(orders).Decode(&o); err != nil {
		r.refuse(fmt.Errorf("read order: %w", err))
	}
	orders.Close()
	if stage == "init" {
		r.refuse(runInit(o, r))
	}
	r.refuse(runStage(o, r))
}

// reporter reports the progress to the parent.
type reporter struct{ encode *json.Encoder }

// report writes one message. It ignores errors: a parent that does not read is dead, and this
// process will be soon.
func (r *reporter) report(m message) { _ = r.encode.Encode(m) }

// refuse reports the reason and ends this process.
func (r *reporter) refuse(err error) {
	m := message{Refused: err.Error(), Code: cannotExecute}
	if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
		m.Code = refusal.Code
	}
	r.report(m)
	syscall.Exit(cannotExecute)
}

// runStage applies the sandbox and executes the command. It returns only the reason why it could
// not.
func runStage(o Order, r *reporter) error {
	preferOthers() // before Landlock denies it
	shown, err := prepareFiles(o)
	if err != nil {
		return err
	}
	if !o.Trial {
		if err := os.Chdir(string(o.Dir)); err != nil {
			return fmt.Errorf("enter the working directory: %w", err)
		}
	}
	c, err := newCall(o)
	if err != nil {
		return err
	}
	enforced, filter, err := confine(o)
	if err != nil {
		return err
	}
	enforced = append(shown, enforced...)
	if err := dieWithParent(o.Parent); err != nil {
		return err
	}
	if o.Trial {
		if err := install(filter); err != nil {
			return err
		}
		r.report(message{Enforced: enforced})
		syscall.Exit(0)
	}
	r.report(message{Enforced: enforced})
	if err := install(filter); err != nil {
		return err
	}
	return c.exec()
}

// prepareFiles creates the scratch directory and enters the view of the command. It returns in
// words what it adds to the sandbox. Under Isolated the init has done it.
func prepareFiles(o Order) ([]string, error) {
	if o.Profile == Isolated {
		return nil, nil
	}
	if err := makeScratch(string(o.Scratch)); err != nil {
		return nil, fmt.Errorf("create the scratch directory: %w", err)
	}
	if o.View == NoView {
		return nil, nil
	}
	if err := buildView(o); err != nil {
		return nil, fmt.Errorf("%w: build the command's view of the file system: %w", Unenforceable, err)
	}
	return []string{viewWords}, nil
}

// call is a prepared execve, which allocates no memory when it is made.
type call struct {
	program string
	path    *byte
	argv    []*byte
	env     []*byte
}

func newCall(o Order) (*call, error) {
	c := &call{program: string(o.Program)}
	var err error
	if c.path, err = syscall.BytePtrFromString(c.program); err != nil {
		return nil, err
	}
	if c.argv, err = pointers(o.Argv); err != nil {
		return nil, err
	}
	c.env, err = pointers(environment(o))
	return c, err
}

func pointers(words [][]byte) ([]*byte, error) {
	all := make([]string, len(words))
	for i, word := range words {
		all[i] = string(word)
	}
	return syscall.SlicePtrFromStrings(all)
}

func (c *call) exec() error {
	_, _, errno := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(c.path)),
		uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.env[0])))
	if errno == syscall.ENOENT {
		return &Refusal{Code: notFound, Text: fmt.Sprintf("program %q or its interpreter does not exist", c.program)}
	}
	if errno == syscall.EACCES {
		return fmt.Errorf("execute %q: %w: the sandbox does not allow it to be read or executed, or it is not a program", c.program, errno)
	}
	return fmt.Errorf("execute %q: %w", c.program, errno)
}

// makeScratch creates the scratch directory, with a home and a directory for temporary files. A
// command can write to those two but not to the directory above, so it cannot replace them by
// links; that they are none is checked nevertheless.
func makeScratch(dir string) error {
	for _, d := range []string{dir, homeOf(dir), temporaryOf(dir)} {
		if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if st, err := os.Lstat(d); err != nil || !st.IsDir() {
			return fmt.Errorf("%s is not a directory: %w", d, err)
		}
	}
	return nil
}

// viewWords say that the command has a view.
const viewWords = "its own /tmp, /dev/shm and local sockets, by mount and IPC namespaces"

func homeOf(scratch string) string      { return filepath.Join(scratch, "home") }
func temporaryOf(scratch string) string { return filepath.Join(scratch, "tmp") }

// environment returns the environment of the command. HOME is in the scratch directory, and TMPDIR
// is /tmp of the view, or else in the scratch directory, unless the host chose directories inside
// the workspace: others could not be used anyway, and programs fail if they cannot read their home.
func environment(o Order) [][]byte {
	env := make([][]byte, 0, len(o.Env)+2)
	chosen := map[string]bool{}
	for _, v := range o.Env {
		name, value, _ := strings.Cut(string(v), "=")
		if name == "HOME" || name == "TMPDIR" {
			if chosen[name] || !within(string(o.Workspace), value) {
				continue
			}
			chosen[name] = true
		}
		env = append(env, v)
	}
	if !chosen["HOME"] {
		env = append(env, []byte("HOME="+homeOf(string(o.Scratch))))
	}
	switch {
	case chosen["TMPDIR"]:
	case o.HasView():
		env = append(env, []byte("TMPDIR=/tmp"))
	default:
		env = append(env, []byte("TMPDIR="+temporaryOf(string(o.Scratch))))
	}
	return env
}

// within reports whether path is folder or below it, going by the names alone.
func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}
