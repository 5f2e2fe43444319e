package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// errMissing says what to install. A test fails with it instead of being skipped.
var errMissing = errors.New("no PostgreSQL server is installed: install one with  sudo apt-get install -y postgresql " +
	" (or your system's equivalent), and try again")

// program finds a program of the server: the newest version where Debian puts it, otherwise in
// PATH.
func program(name string) (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }), nil
	}
	file, err := exec.LookPath(name)
	if err != nil {
		return "", errMissing
	}
	return file, nil
}

// version returns the number in /usr/lib/postgresql/15/bin/postgres, or 0.
func version(file string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(file))))
	if err != nil {
		return 0
	}
	return n
}

// owner is the user that runs the server, which refuses to run as root. nil: the user of this
// process.
type owner struct{ uid, gid uint32 }

// findOwner returns an unprivileged user if this process runs as root.
func findOwner() (*owner, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	var errs []error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, err
		}
		return &owner{uint32(uid), uint32(gid)}, nil
	}
	return nil, errors.Join(errs...)
}

// prepareFolder gives a folder to the owner. It fails if a server cannot listen there.
func (o *owner) prepareFolder(folder string) error {
	if n := len(socketIn(folder)); n > socketPath {
		return fmt.Errorf("the path of the server's socket in %s would have %d bytes, more than the limit of %d: set "+
			"TMPDIR to a folder with a shorter path", folder, n, socketPath)
	}
	if o == nil {
		return nil
	}
	if err := os.Chown(folder, int(o.uid), int(o.gid)); err != nil {
		return err
	}
	check := exec.Command("/bin/sh", "-c", `cd "$1"`, "look", folder)
	check.Dir = "/"
	o.own(check)
	if out, err := check.CombinedOutput(); err != nil {
		return fmt.Errorf("the server's user cannot reach %s: set TMPDIR to a folder that every user may "+
			"enter: %w: %s", folder, err, out)
	}
	return nil
}

// own runs a command as the owner, in a process group of its own, so that Ctrl-C does not reach it.
func (o *owner) own(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if o != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	}
}
