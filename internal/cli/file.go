package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// fileBytes bounds a file that is read here; the engine says itself how large one may be.
const fileBytes = 64 << 20

type fileCommand struct {
	Ls  fileLs  `cmd:"" help:"List a directory of a session's files."`
	Cat fileCat `cmd:"" help:"Print a file, byte for byte."`
	Put filePut `cmd:"" help:"Write a file, from one of this machine or from stdin."`
	Get fileGet `cmd:"" help:"Copy a file to this machine."`
	Mv  fileMv  `cmd:"" help:"Give a file, or a directory with all below it, another path."`
	Rm  fileRm  `cmd:"" help:"Remove a file, or a directory."`
}

// inFiles is the path as the session knows it.
func inFiles(typed string) string { return path.Join("/", typed) }

type fileLs struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Path    string `arg:"" optional:"" help:"The directory, from the root of the session's files." default:"/"`
	Deep    bool   `short:"r" help:"All below it, too."`
	output
}

// Run lists files.
func (c *fileLs) Run(ctx context.Context, a *app) error {
	return a.inSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		all, err := eng.Files(ctx, s.ID, inFiles(c.Path), c.Deep)
		if err != nil {
			return a.noFile(s, c.Path, err)
		}
		now := a.now()
		return listing[engine.File]{
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
		}.print(ctx, a, c.output, all)
	})
}

// inSession finds a session, in an engine that reads or may change it.
func (a *app) inSession(ctx context.Context, typed string, reads bool, fn func(Engine, engine.Session) error) error {
	return a.with(ctx, writing(reads), func(eng Engine) error {
		s, err := a.session(ctx, eng, typed)
		if err != nil {
			return err
		}
		return fn(eng, s)
	})
}

// noFile says where to look for a path that is not there.
func (a *app) noFile(s engine.Session, typed string, err error) error {
	if !errors.Is(err, perdure.NotFound) {
		return err
	}
	return &fault{err: err, what: fmt.Sprintf("there is nothing at %s in the files of %s", inFiles(typed), s.ID), todo: program + " file ls " + a.place() + string(s.ID) + " -r  lists them"}
}

type fileCat struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Path    string `arg:"" help:"From the root of the session's files."`
}

// Run prints a file. On a terminal, without what could drive it.
func (c *fileCat) Run(ctx context.Context, a *app) error {
	return a.inSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		f, err := a.content(ctx, eng, s, c.Path)
		if err != nil {
			return err
		}
		if a.Terminal.Stdout && !a.flags.Raw {
			f.Content = []byte(plain(string(f.Content)))
		}
		_, err = a.out.Write(f.Content)
		return err
	})
}

// content reads a file.
func (a *app) content(ctx context.Context, eng engine.Files, s engine.Session, typed string) (engine.File, error) {
	f, err := eng.File(ctx, s.ID, inFiles(typed), true)
	if err == nil && f.Directory {
		return f, &fault{err: perdure.Conflict, what: f.Path + " is a directory", todo: program + " file ls " + a.place() + string(s.ID) + " " + quote(f.Path)}
	}
	if err != nil {
		return f, a.noFile(s, typed, err)
	}
	return f, nil
}

type filePut struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	From    string `arg:"" help:"The file of this machine; - reads stdin." type:"path"`
	Path    string `arg:"" help:"From the root of the session's files. Parents that are missing are made."`
	New     bool   `help:"Only if nothing is there."`
	DryRun  bool   `help:"Only say what would be done."`
	output
}

// Run writes a file.
func (c *filePut) Run(ctx context.Context, a *app) error {
	if err := c.suits(engine.File{}); err != nil {
		return err
	}
	text, err := a.localFile(c.From)
	if err != nil {
		return err
	}
	return a.inSession(ctx, c.Session, c.DryRun, func(eng Engine, s engine.Session) error {
		if c.DryRun {
			a.say("would write %s to %s in %s", count(len(text), "byte"), a.line(inFiles(c.Path), 200), s.ID)
			return nil
		}
		f, err := eng.WriteFile(ctx, s.ID, engine.FileWrite{Path: inFiles(c.Path), Content: text, New: c.New, By: operator})
		if err != nil {
			return err
		}
		a.say("wrote %s to %s in %s", count(f.SizeBytes, "byte"), a.line(f.Path, 200), s.ID)
		return c.quietly(ctx, a, f.Path, f)
	})
}

// localFile reads a file of this machine, or stdin.
func (a *app) localFile(name string) ([]byte, error) {
	in := a.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, misuse("the file cannot be read: "+err.Error(), "- reads stdin")
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, fileBytes+1))
	switch {
	case err != nil:
		return nil, misuse("the file cannot be read: "+err.Error(), "")
	case len(text) > fileBytes:
		return nil, misuse(fmt.Sprintf("there are more than %d bytes", fileBytes), "")
	}
	return text, nil
}

type fileGet struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Path    string `arg:"" help:"From the root of the session's files."`
	To      string `arg:"" optional:"" help:"The file of this machine, which must not be there yet. Not given: of the same name, here." type:"path"`
	Force   bool   `help:"Also over a file that is there."`
}

// Run copies a file to this machine. What a session calls a file never leads out of the current folder by itself.
func (c *fileGet) Run(ctx context.Context, a *app) error {
	return a.inSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		f, err := a.content(ctx, eng, s, c.Path)
		if err != nil {
			return err
		}
		to, how := c.To, os.O_WRONLY|os.O_CREATE|os.O_EXCL
		if to == "" {
			to = path.Base(f.Path)
		}
		if c.Force {
			how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
		}
		file, err := os.OpenFile(to, how, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return &fault{err: perdure.Conflict, what: a.line(to, 200) + " is there already, and stays as it is", todo: "--force writes over it; or name another file"}
		}
		if err != nil {
			return misuse("the file cannot be written: "+err.Error(), "")
		}
		_, err = file.Write(f.Content)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("write %s: %w", to, err)
		}
		a.say("%s of %s is in %s", count(f.SizeBytes, "byte"), a.line(f.Path, 200), a.line(to, 200))
		return nil
	})
}

type fileMv struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	From    string `arg:"" help:"From the root of the session's files."`
	To      string `arg:"" help:"Likewise; nothing may be there."`
	DryRun  bool   `help:"Only say what would be done."`
	output
}

// Run moves a file.
func (c *fileMv) Run(ctx context.Context, a *app) error {
	if err := c.suits(engine.File{}); err != nil {
		return err
	}
	return a.inSession(ctx, c.Session, c.DryRun, func(eng Engine, s engine.Session) error {
		if c.DryRun {
			f, err := eng.File(ctx, s.ID, inFiles(c.From), false)
			if err != nil {
				return a.noFile(s, c.From, err)
			}
			a.say("would move %s to %s", a.line(f.Path, 200), a.line(inFiles(c.To), 200))
			return nil
		}
		f, err := eng.MoveFile(ctx, s.ID, engine.FileMove{From: inFiles(c.From), To: inFiles(c.To), By: operator})
		if err != nil {
			return a.noFile(s, c.From, err)
		}
		a.say("moved %s to %s", a.line(inFiles(c.From), 200), a.line(f.Path, 200))
		return c.quietly(ctx, a, f.Path, f)
	})
}

type fileRm struct {
	Session   string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Path      string `arg:"" help:"From the root of the session's files."`
	Recursive bool   `short:"r" help:"A directory with all below it."`
	DryRun    bool   `help:"Only say what would be done."`
	Yes       bool   `short:"y" help:"Do not ask, also on a terminal."`
	output
}

// Run removes a file.
func (c *fileRm) Run(ctx context.Context, a *app) error {
	if err := c.suits(gone{}); err != nil {
		return err
	}
	return a.inSession(ctx, c.Session, c.DryRun, func(eng Engine, s engine.Session) error {
		f, err := eng.File(ctx, s.ID, inFiles(c.Path), false)
		if err != nil {
			return a.noFile(s, c.Path, err)
		}
		what := a.line(f.Path, 200)
		if f.Directory && c.Recursive {
			what += ", with all below it,"
		}
		full := &fault{err: perdure.Conflict, what: f.Path + " is a directory, and is not empty: nothing was removed", todo: "-r removes it with all below it"}
		if c.DryRun {
			if inside, err := eng.Files(ctx, s.ID, f.Path, false); err == nil && len(inside) > 0 && f.Directory && !c.Recursive {
				return full
			}
			a.say("would remove %s", strings.TrimSuffix(what, ","))
			return nil
		}
		if err := a.confirm(ctx, c.Yes, "remove "+what+" for ever?"); err != nil {
			return err
		}
		err = eng.RemoveFile(ctx, s.ID, engine.FileRemoval{Path: f.Path, Recursive: c.Recursive, By: operator})
		if f.Directory && !c.Recursive && errors.Is(err, perdure.Conflict) {
			return full
		}
		if err != nil {
			return err
		}
		a.say("removed %s", strings.TrimSuffix(what, ","))
		return c.quietly(ctx, a, f.Path, gone{f.Path, true})
	})
}
