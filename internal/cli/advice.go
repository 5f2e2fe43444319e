package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/perdure/perdure"
)

// hint returns what to do about an error: its own advice, or one for its cause, or a general one by
// kind.
func (a *app) hint(err error) string {
	var f *userError
	if errors.As(err, &f) && f.hint != "" {
		return f.hint
	}
	var elsewhere *StoreMismatch
	if errors.As(err, &elsewhere) {
		return elsewhere.Todo
	}
	var kept interface{ Backup() string } // a folder that must not be written
	if errors.As(err, &kept) {
		return RestoreLine(kept.Backup())
	}
	if todo := a.causeHint(err); todo != "" {
		return todo
	}
	own, doctor := program+" "+a.storeFlags(), strings.TrimSpace(program+" doctor "+a.storeFlags())
	switch exitCode(err) {
	case exitUsage:
		return a.usageHint()
	case exitDenied:
		return "set PERDURE_TOKEN to a token of the server; its first token is in the file token of its data directory"
	case exitNotFound:
		if strings.HasPrefix(a.command, "mcp ") {
			return "add it to this file, or name a server that it has"
		}
		return own + "session list and task list show what exists"
	case exitConflict:
		return "nothing was changed: resolve the conflict named above, or use other arguments"
	case exitUnreachable:
		return "try again; " + doctor + " looks for the cause"
	case exitTimeout:
		return "the work is stored and continues: check again later, or allow more time"
	case exitFailed:
		return "details: " + own + "event list last"
	case exitStorage:
		return "free some space or make the data directory writable, then try again: acknowledged work is stored"
	}
	return doctor + " looks for the cause; --verbose logs internal activity"
}

// usageHint names the help of the running command, or else the list of commands.
func (a *app) usageHint() string {
	if a.command == "" {
		return program + " --help lists the commands"
	}
	return program + " " + a.command + " --help shows its arguments and flags"
}

// causeHint returns what to do about a cause that tells more than its kind; empty: there is none.
func (a *app) causeHint(err error) string {
	var foreign interface{ NotDatabase() string } // a file where the database belongs
	var dial *net.OpError
	switch {
	case errors.Is(err, exec.ErrNotFound), exitCode(err) == exitUsage && errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(a.command, "mcp "):
		return "install it, or name it with its full path"
	case errors.As(err, &foreign):
		return "move " + quote(foreign.NotDatabase()) + " away, or name another directory with --data"
	case errors.As(err, &dial) && dial.Op == "dial" && a.flags.Server != "" && errors.Is(err, perdure.Unavailable):
		return "start a server there with " + program + " serve, or correct the address: --server or PERDURE_SERVER"
	case exitCode(err) != exitStorage:
	case errors.Is(err, syscall.ENOSPC):
		return "free some space, then try again: acknowledged work is stored"
	case errors.Is(err, fs.ErrPermission):
		return "make it writable for this user, or name another directory with --data"
	case errors.Is(err, syscall.ENOTDIR):
		return "a part of this path is a file: name another directory with --data"
	}
	return ""
}

// checkDataDir refuses a file where the data directory belongs. What does not exist is created when
// it is needed.
func checkDataDir(dir string) error {
	if found, err := os.Stat(dir); err == nil && !found.IsDir() {
		return usageError(dir+" is a file, not a data directory", "name a folder with --data or PERDURE_DATA")
	}
	return nil
}

// isForeignFolder reports whether a folder has files, but none that a data directory begins with.
func isForeignFolder(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return false
	}
	ours := []string{"egress.json", "keyring", "lock", "mcp.json", "oauth.json", "perdure.db", "prices.yaml", "token"}
	return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(ours, e.Name()) })
}

func (a *app) openError(ctx context.Context, o OpenOptions, err error) error {
	switch {
	case errors.As(err, new(*StoreMismatch)), errors.As(err, new(interface{ Backup() string })):
		return err // has its own advice
	case o.Access == Writing && errors.Is(err, perdure.Conflict):
		o.Access = Reading
		beside, refused := a.Open(ctx, o)
		if refused != nil { // a newer version wrote it
			return &userError{err: err, message: err.Error(),
				hint: "use another directory with --data; " + program + " version prints the version of this program"}
		}
		return errors.Join(&userError{err: err, message: err.Error(),
			hint: "commands that only read (list, show, log, tail, watch) still work"}, beside.Close())
	case o.Access == ServerOrRead && errors.Is(err, perdure.NotFound):
		begin := fmt.Sprintf("%s run %s--model MODEL PROMPT", program, a.storeFlags())
		if isForeignFolder(o.Dir) {
			return &userError{err: err, message: o.Dir + " is not a data directory: it has other files, and no perdure.db",
				hint: "name the data directory with --data, or begin one in this folder: " + begin}
		}
		return &userError{err: err, message: err.Error(), hint: "start a session with: " + begin}
	}
	return err
}

// connectWait says what an opening waits for; empty: a file on this machine, which is there or not.
func connectWait(o OpenOptions) string {
	switch {
	case o.Server != "":
		text := o.Server
		if u, err := url.Parse(o.Server); err == nil {
			text = u.Redacted()
		}
		return "an answer of " + text
	case o.Database != "":
		return "the database"
	}
	return "the process that holds " + filepath.Base(o.Dir)
}
