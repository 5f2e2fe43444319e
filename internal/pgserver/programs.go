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

// errMissing says what to do where there is no server: a test fails with it, and is not skipped.
var errMissing = errors.New("no PostgreSQL server is installed: run  sudo apt-get install -y postgresql  (or your system's equivalent), then this again")

// program finds a program of the server: where Debian puts it, the newest first, or in PATH.
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

// version is the number in /usr/lib/postgresql/15/bin/postgres, or 0.
func version(file string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(file))))
	if err != nil {
		return 0
	}
	return n
}

// owner is who runs the server: it refuses to run as root. nil: whoever runs the tests.
type owner struct{ uid, gid uint32 }

// findOwner looks for a user without rights, when the tests have them all.
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

// take gives a folder to the owner, for a server in it. It fails where none can be.
func (o *owner) take(folder string) error {
	if n := len(socketIn(folder)); n > socketPath {
		return fmt.Errorf("the path of the server's socket in %s would have %d bytes, and %d is the most: set TMPDIR to a folder with a shorter path", folder, n, socketPath)
	}
	if o == nil {
		return nil
	}
	if err := os.Chown(folder, int(o.uid), int(o.gid)); err != nil {
		return err
	}
	look := exec.Command("/bin/sh", "-c", `cd "$1"`, "look", folder)
	look.Dir = "/"
	o.own(look)
	if out, err := look.CombinedOutput(); err != nil {
		return fmt.Errorf("the server's user cannot reach %s: set TMPDIR to a folder that everybody may enter: %w: %s", folder, err, out)
	}
	return nil
}

// own gives a command to the owner, in a group of its own: a Ctrl-C is for the tests.
func (o *owner) own(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if o != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	}
}
