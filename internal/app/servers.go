package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/store/sqlite"
)

const (
	// serveProgram is how a server names itself in the lock file of its data directory.
	serveProgram = "perdure serve"
	// serveLog is the file with the messages of a detached server, in its data directory.
	serveLog = "serve.log"
	// stopPoll is how often a stop checks whether the server has ended.
	stopPoll = 20 * time.Millisecond
)

// servers manages the servers of data directories on this machine.
type servers struct{}

// Detach starts a server in a session of its own, so that it survives this process and its
// terminal.
func (servers) Detach(ctx context.Context, o cli.DetachOptions) (cli.ServerInfo, cli.ServerProcess, error) {
	p := cli.ServerProcess{Dir: o.Dir, Log: filepath.Join(o.Dir, serveLog)}
	if err := sqlite.RefuseBackup(o.Dir); err != nil {
		return cli.ServerInfo{}, p, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return cli.ServerInfo{}, p, fmt.Errorf("%w: create data directory %s: %w", perdure.Storage, o.Dir, err)
	}
	log, err := os.OpenFile(p.Log, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return cli.ServerInfo{}, p, fmt.Errorf("%w: open the log of the server: %w", perdure.Storage, err)
	}
	defer log.Close()
	before, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return cli.ServerInfo{}, p, fmt.Errorf("%w: open the log of the server: %w", perdure.Storage, err)
	}
	process := exec.Command(self(), o.Args...)
	process.Stderr, process.SysProcAttr = log, &syscall.SysProcAttr{Setsid: true}
	out, err := process.StdoutPipe()
	if err != nil {
		return cli.ServerInfo{}, p, err
	}
	if err := process.Start(); err != nil {
		return cli.ServerInfo{}, p, fmt.Errorf("start the server: %w", err)
	}
	p.PID = process.Process.Pid
	url, err := firstLine(ctx, out)
	if err == nil {
		info := cli.ServerInfo{URL: url, TokenFile: filepath.Join(o.Dir, tokenFile), Socket: filepath.Join(o.Dir, socketFile)}
		if _, err := os.Stat(info.Socket); err != nil {
			info.Socket = ""
		}
		return info, p, process.Process.Release()
	}
	if ctx.Err() != nil { // the user has stopped waiting: a server that is not ready is not left behind
		_ = process.Process.Signal(syscall.SIGTERM)
	}
	_ = process.Wait() // the exit code says how it ended
	if ctx.Err() != nil {
		return cli.ServerInfo{}, p, context.Cause(ctx)
	}
	said, err := io.ReadAll(io.NewSectionReader(log, before, maxSaid))
	if err != nil {
		return cli.ServerInfo{}, p, fmt.Errorf("read %s: %w", p.Log, err)
	}
	return cli.ServerInfo{}, p, &cli.DetachError{Code: max(process.ProcessState.ExitCode(), 1), Said: string(said)}
}

// maxSaid is how much of the messages of a server that did not start is printed.
const maxSaid = 64 << 10

// firstLine returns the first line of a stream. It returns an error if the stream ends without one,
// or with the cause of ctx.
func firstLine(ctx context.Context, from io.Reader) (string, error) {
	type read struct {
		line string
		err  error
	}
	lines := make(chan read, 1) // capacity 1: nobody may wait for it any more
	go func() {
		line, err := bufio.NewReader(from).ReadString('\n')
		lines <- read{strings.TrimSpace(line), err}
	}()
	select {
	case found := <-lines:
		return found.line, found.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Find finds the server by the lock of the data directory, which names its process, or, with a
// shared database, by the socket.
func (servers) Find(ctx context.Context, dir string) (cli.ServerProcess, error) {
	p := cli.ServerProcess{Dir: dir}
	if held, err := lockHeld(filepath.Join(dir, sqlite.LockName)); err == nil && held {
		holder, err := sqlite.ReadHolder(dir)
		if err != nil {
			return p, fmt.Errorf("%w: data directory %s is held by a process that is just starting or ending; try again",
				perdure.Conflict, dir)
		}
		if holder.Program != serveProgram {
			return p, fmt.Errorf("%w: data directory %s is held by process %d (%s), which is no server; it ends with Ctrl-C in its terminal",
				perdure.Conflict, dir, holder.PID, holder.Program)
		}
		p.PID, p.StartedAt = holder.PID, holder.StartedAt
		return p, nil
	}
	pid, err := socketOwner(ctx, filepath.Join(dir, socketFile))
	if err != nil {
		return p, fmt.Errorf("%w server of %s: %w", perdure.NotFound, dir, err)
	}
	p.PID = pid
	return p, nil
}

// socketOwner returns the process that listens on a socket.
func socketOwner(ctx context.Context, path string) (pid int, err error) {
	conn, err := egress.DialSocket(ctx, path)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) { pid, err = peerPID(int(fd)) })
	return pid, errors.Join(failed, err)
}

// Stop sends SIGTERM, which lets running calls settle, and waits for the end of the process.
func (s servers) Stop(ctx context.Context, p cli.ServerProcess) error {
	process, err := os.FindProcess(p.PID)
	if err != nil {
		return nil // it has ended
	}
	defer process.Release()
	// The process is found before the check, so that a number that was given to another process
	// meanwhile is not mistaken for the server.
	switch now, err := s.Find(ctx, p.Dir); {
	case errors.Is(err, perdure.NotFound):
		return nil
	case err != nil:
		return err
	case now.PID != p.PID || !now.StartedAt.Equal(p.StartedAt):
		return fmt.Errorf("%w: process %d, the server of %s, has ended, and process %d has started since", perdure.Conflict,
			p.PID, p.Dir, now.PID)
	}
	switch err := process.Signal(syscall.SIGTERM); {
	case errors.Is(err, os.ErrProcessDone):
		return nil
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: process %d, the server of %s, belongs to another user: %w", perdure.Denied, p.PID, p.Dir, err)
	case err != nil:
		return fmt.Errorf("stop process %d: %w", p.PID, err)
	}
	for s.holds(p) && !errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(stopPoll):
		}
	}
	return nil
}

// holds reports whether the lock file of the data directory still names the process. A server with
// a shared database has no lock, so that only the end of its process tells.
func (servers) holds(p cli.ServerProcess) bool {
	if p.StartedAt.IsZero() {
		return true
	}
	holder, err := sqlite.ReadHolder(p.Dir)
	return err == nil && holder.PID == p.PID
}
