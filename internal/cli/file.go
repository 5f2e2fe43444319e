package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// fileBytes limits files that are read here; the engine enforces its own limit.
const fileBytes = 64 << 20

type fileCommand struct {
	Ls  fileLs  `cmd:"" aliases:"list" help:"List the files of a session."`
	Cat fileCat `cmd:"" help:"Print a file, byte for byte."`
	Put filePut `cmd:"" help:"Upload a local file or stdin."`
	Get fileGet `cmd:"" help:"Download a file."`
	Mv  fileMv  `cmd:"" help:"Move or rename a file or directory."`
	Rm  fileRm  `cmd:"" aliases:"delete" help:"Remove a file or directory."`

	Grep fileGrep `cmd:"" help:"Search the lines of text files for a regular expression."`
}

// inFiles returns the absolute path in the files of a session.
func inFiles(typed string) string { return path.Join("/", typed) }

type fileLs struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Path    string `arg:"" optional:"" help:"Directory in the files of the session." default:"/"`
	Deep    bool   `short:"r" help:"List subdirectories recursively."`
	outputFlags
}

// Run lists files.
func (c *fileLs) Run(ctx context.Context, a *app) error {
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		all, err := eng.Files().List(ctx, s.ID, inFiles(c.Path), c.Deep)
		if err != nil {
			return fileText{a}.fileNotFound(s, c.Path, err)
		}
		now := a.now()
		return outputList[engine.File]{
			noun: "files", head: []string{"SIZE", "CHANGED", "PATH"},
			name: func(f engine.File) string { return f.Path },
			row: func(f engine.File) []cell {
				name := cell{text: f.Path}
				size := fmt.Sprint(f.SizeBytes)
				if f.Directory {
					name, size = cell{f.Path + "/", bold}, ""
				}
				if f.ReadOnly {
					name.text += "  (read-only)"
				}
				return []cell{{text: size}, {text: ago(f.UpdatedAt, now)}, name}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

// onSession finds a session and runs fn with an engine that reads or may change it.
func (a *app) onSession(ctx context.Context, typed string, reads bool, fn func(Engine, engine.Session) error) error {
	return a.with(ctx, writesAccess(reads), found(ctx, typed, a.session, fn))
}

// fileNotFound says how to list files when a path does not exist.
func (a fileText) fileNotFound(s engine.Session, typed string, err error) error {
	if !errors.Is(err, perdure.NotFound) {
		return err
	}
	return &userError{err: err, message: fmt.Sprintf("%s does not exist in the files of %s", inFiles(typed), s.ID),
		hint: program + " file ls " + a.storeFlags() + string(s.ID) + " -r  lists them"}
}

type fileCat struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Path    string `arg:"" help:"Path in the files of the session."`
}

// Run prints a file. On a terminal, control characters are removed.
func (c *fileCat) Run(ctx context.Context, a *app) error {
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		f, err := fileText{a}.content(ctx, eng.Files(), s, c.Path)
		if err != nil {
			return err
		}
		if a.Terminal.Stdout && !a.flags.Raw {
			f.Content = []byte(printable(string(f.Content)))
		}
		_, err = a.out.Write(f.Content)
		return err
	})
}

// content reads a file.
func (a fileText) content(ctx context.Context, eng engine.Files, s engine.Session, typed string) (engine.File, error) {
	f, err := eng.Get(ctx, s.ID, inFiles(typed), true)
	if err == nil && f.Directory {
		return f, &userError{err: perdure.Conflict, message: f.Path + " is a directory",
			hint: program + " file ls " + a.storeFlags() + string(s.ID) + " " + quote(f.Path)}
	}
	if err != nil {
		return f, a.fileNotFound(s, typed, err)
	}
	return f, nil
}

type filePut struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	From    string `arg:"" help:"Local file; - reads stdin." type:"path"`
	Path    string `arg:"" help:"Path in the files of the session. Missing parent directories are created."`
	New     bool   `help:"Fail if the file already exists."`
	actFlags
}

// Run writes a file.
func (c *filePut) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(engine.File{}); err != nil {
		return err
	}
	text, err := fileText{a}.localFile(c.From)
	if err != nil {
		return err
	}
	return a.onSession(ctx, c.Session, c.DryRun, func(eng Engine, s engine.Session) error {
		if c.DryRun {
			a.message("would write %s to %s in %s", count(len(text), "byte"), a.oneLine(inFiles(c.Path), 200), s.ID)
			return nil
		}
		f, err := eng.Files().Write(ctx, s.ID,
			engine.FileWrite{Path: inFiles(c.Path), Content: text, New: c.New, By: operator})
		if err != nil {
			return err
		}
		a.message("wrote %s to %s in %s", count(f.SizeBytes, "byte"), a.oneLine(f.Path, 200), s.ID)
		return c.showForPrograms(ctx, a, f.Path, f)
	})
}

// localFile reads a file of this machine, or stdin.
func (a fileText) localFile(name string) ([]byte, error) {
	in := a.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, usageError("cannot read the file: "+err.Error(), "use - to read stdin")
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, fileBytes+1))
	switch {
	case err != nil:
		return nil, usageError("cannot read the file: "+err.Error(), "name a file that this user can read, or use - to read stdin")
	case len(text) > fileBytes:
		return nil, usageError(fmt.Sprintf("the file is larger than %d bytes", fileBytes), "split it, or let a tool of the session fetch it")
	}
	return text, nil
}

type fileGet struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Path    string `arg:"" help:"Path in the files of the session."`
	To      string `arg:"" optional:"" help:"Local file, which must not exist. Default: the same name, in the current folder." type:"path"`
	Force   bool   `help:"Overwrite an existing file."`
}

// Run downloads a file. Without a local path it writes only to the current folder, whatever the
// path in the session is.
func (c *fileGet) Run(ctx context.Context, a *app) error {
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		f, err := fileText{a}.content(ctx, eng.Files(), s, c.Path)
		if err != nil {
			return err
		}
		to := c.To
		if to == "" {
			to = path.Base(f.Path)
		}
		if err := download(a, to, c.Force, f.Content); err != nil {
			return err
		}
		a.message("wrote %s of %s to %s", count(f.SizeBytes, "byte"), a.oneLine(f.Path, 200), a.oneLine(to, 200))
		return nil
	})
}

type fileMv struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	From    string `arg:"" help:"Path in the files of the session."`
	To      string `arg:"" help:"New path, which must not exist."`
	actFlags
}

// Run moves a file.
func (c *fileMv) Run(ctx context.Context, a *app) error {
	return c.onSession(ctx, a, c.Session, engine.File{}, func(eng Engine, s engine.Session) error {
		if c.DryRun {
			f, err := eng.Files().Get(ctx, s.ID, inFiles(c.From), false)
			if err != nil {
				return fileText{a}.fileNotFound(s, c.From, err)
			}
			a.message("would move %s to %s", a.oneLine(f.Path, 200), a.oneLine(inFiles(c.To), 200))
			return nil
		}
		f, err := eng.Files().Move(ctx, s.ID, engine.FileMove{From: inFiles(c.From), To: inFiles(c.To), By: operator})
		if err != nil {
			return fileText{a}.fileNotFound(s, c.From, err)
		}
		a.message("moved %s to %s", a.oneLine(inFiles(c.From), 200), a.oneLine(f.Path, 200))
		return c.showForPrograms(ctx, a, f.Path, f)
	})
}

type fileRm struct {
	Session   string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Path      string `arg:"" help:"Path in the files of the session."`
	Recursive bool   `short:"r" help:"Remove a directory with everything in it."`
	deleteFlags
}

// Run removes a file.
func (c *fileRm) Run(ctx context.Context, a *app) error {
	return c.flags().onSession(ctx, a, c.Session, deletedOutput{}, func(eng Engine, s engine.Session) error {
		f, err := eng.Files().Get(ctx, s.ID, inFiles(c.Path), false)
		if err != nil {
			return fileText{a}.fileNotFound(s, c.Path, err)
		}
		what := a.oneLine(f.Path, 200)
		if f.Directory && c.Recursive {
			what += ", with everything in it,"
		}
		full := &userError{err: perdure.Conflict, message: f.Path + " is a directory and is not empty: nothing was removed",
			hint: "remove it with everything in it with -r"}
		if c.DryRun {
			if inside, err := eng.Files().List(ctx, s.ID, f.Path, false); err == nil && len(inside) > 0 && f.Directory &&
				!c.Recursive {
				return full
			}
			a.message("would remove %s", strings.TrimSuffix(what, ","))
			return nil
		}
		if err := a.confirm(ctx, c.Yes, "remove "+what+" permanently?"); err != nil {
			return err
		}
		err = eng.Files().Remove(ctx, s.ID, engine.FileRemoval{Path: f.Path, Recursive: c.Recursive, By: operator})
		if f.Directory && !c.Recursive && errors.Is(err, perdure.Conflict) {
			return full
		}
		if err != nil {
			return err
		}
		a.message("removed %s", strings.TrimSuffix(what, ","))
		return c.showForPrograms(ctx, a, f.Path, deletedOutput{f.Path, true})
	})
}
