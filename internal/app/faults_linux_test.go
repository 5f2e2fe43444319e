package app

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// hostCommands returns the script commands that only this system has.
func hostCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"smalldisk": smallDisk, "fill": fill, "unfill": unfill, "cutoutput": cutOutput,
	}
}

// mayMount reports whether file systems can be mounted here.
func mayMount() bool {
	dir, err := os.MkdirTemp("", "perdure-mount-")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		return false
	}
	return syscall.Unmount(dir, 0) == nil
}

// smalldisk DIR mounts a file system of a few megabytes.
func smallDisk(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.Mkdir(dir, 0o700))
	ts.Check(syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"))
	ts.Defer(func() { ts.Check(syscall.Unmount(dir, 0)) })
}

// fill DIR fills a file system.
func fill(ts *testscript.TestScript, _ bool, args []string) {
	file, err := os.Create(filepath.Join(ts.MkAbs(args[0]), "ballast"))
	ts.Check(err)
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		ts.Fatalf("fill: %v", err)
	}
}

// unfill DIR removes the data of fill.
func unfill(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.Remove(filepath.Join(ts.MkAbs(args[0]), "ballast")))
}

// cutoutput truncates the output of every command that was run under a supervisor.
func cutOutput(ts *testscript.TestScript, _ bool, _ []string) {
	found, err := filepath.Glob(filepath.Join(ts.Getenv("PERDURE_DATA"), "runs", "*", "output"))
	ts.Check(err)
	if len(found) == 0 {
		ts.Fatalf("there is no output")
	}
	for _, name := range found {
		ts.Check(os.Truncate(name, 0))
	}
}
