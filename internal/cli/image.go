package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type imageCommand struct {
	Put  imagePut  `cmd:"" help:"Store an image with a session: PNG, JPEG, GIF or WebP, at most 20 MB."`
	List imageList `cmd:"" aliases:"ls" help:"List the images of a session, newest first."`
	Get  imageGet  `cmd:"" help:"Download an image."`
	Rm   imageRm   `cmd:"" aliases:"delete" help:"Remove an image. Models read in its place that it is unavailable."`
}

type imagePut struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	From    string `arg:"" help:"Local file; - reads stdin." type:"path"`
	Name    string `help:"Name of the image. Default: the name of the file." placeholder:"TEXT"`
	actFlags
}

// Run stores an image.
func (c *imagePut) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(engine.Image{}); err != nil {
		return err
	}
	w, err := localImage(a, c.From, c.Name)
	if err != nil {
		return err
	}
	return a.onSession(ctx, c.Session, c.DryRun, func(eng Engine, s engine.Session) error {
		if c.DryRun {
			a.message("would store an image of %s in %s", count(len(w.Content), "byte"), s.ID)
			return nil
		}
		i, err := eng.Images().Put(ctx, s.ID, w)
		if err != nil {
			return imageError(err)
		}
		a.message("stored %s, %s of %s, in %s", i.ID, count(i.SizeBytes, "byte"), i.ContentType, s.ID)
		a.message("show it to the agent with: %s session send %s%s --image %s TEXT", program, a.storeFlags(), s.ID, i.ID)
		return c.showForPrograms(ctx, a, string(i.ID), i)
	})
}

// localImage reads an image of this machine, or stdin.
func localImage(a *app, from, name string) (engine.ImageWrite, error) {
	content, err := fileText{a}.localFile(from)
	if err != nil {
		return engine.ImageWrite{}, err
	}
	if len(content) > engine.MaxImageBytes {
		return engine.ImageWrite{}, usageError(fmt.Sprintf("%s has %d bytes; an image has at most %d", from, len(content), engine.MaxImageBytes),
			"make it smaller: models scale large images down anyway")
	}
	if name == "" && from != "-" {
		name = filepath.Base(from)
	}
	return engine.ImageWrite{Filename: clip(strings.ToValidUTF8(name, "?"), cellChars), Content: content}, nil
}

// imageError says what to do about bytes that are no image.
func imageError(err error) error {
	if !errors.Is(err, perdure.Invalid) {
		return err
	}
	return &userError{err: err, message: err.Error(), hint: "convert it to one of these types; the name of the file does not matter"}
}

type imageList struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	listFlags
}

// Run lists images.
func (c *imageList) Run(ctx context.Context, a *app) error {
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		all, err := eng.Images().List(ctx, s.ID)
		if err != nil {
			return err
		}
		now := a.now()
		if all, err = newestWithin(c.listFlags, now.Time, all, func(i engine.Image) time.Time { return i.CreatedAt }); err != nil {
			return err
		}
		return outputList[engine.Image]{
			noun: "images", head: []string{"IMAGE", "TYPE", "SIZE", "CREATED", "NAME"},
			name: func(i engine.Image) string { return string(i.ID) },
			row: func(i engine.Image) []cell {
				return []cell{{string(i.ID), bold}, {text: i.ContentType}, {text: fmt.Sprint(i.SizeBytes)}, {text: ago(i.CreatedAt, now)}, {text: i.Filename}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

// imageNamed finds an image of a session by what the user typed.
func imageNamed(ctx context.Context, a *app, eng Engine, s engine.Session, typed string) (engine.Image, error) {
	if id, err := perdure.ParseID[perdure.ImageID](typed); err == nil { // also one of the session it was forked from
		if i, err := eng.Images().Get(ctx, s.ID, id, false); !errors.Is(err, perdure.NotFound) {
			return i, err
		}
	}
	all, err := eng.Images().List(ctx, s.ID)
	if err != nil {
		return engine.Image{}, err
	}
	return pick(a.kindBy("image", "image list", string(s.ID)), typed, all, func(i engine.Image) candidate {
		return candidate{id: string(i.ID), name: i.Filename, description: i.ContentType + " " + i.Filename}
	})
}

type imageGet struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Image   string `arg:"" help:"Image: id, unique id prefix, or name."`
	To      string `arg:"" optional:"" help:"Local file, which must not exist; - writes to stdout. Default: the id with the extension of its type, in the current folder." type:"path"`
	Force   bool   `help:"Overwrite an existing file."`
}

// Run downloads an image. The default name is never the one that the image has, because a model may
// have chosen it.
func (c *imageGet) Run(ctx context.Context, a *app) error {
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		i, err := imageNamed(ctx, a, eng, s, c.Image)
		if err == nil {
			i, err = eng.Images().Get(ctx, s.ID, i.ID, true)
		}
		if err != nil {
			return err
		}
		if c.To == "-" {
			if a.Terminal.Stdout && !a.flags.Raw {
				return usageError("an image cannot be shown on a terminal", "give a file, or send the output to a program")
			}
			_, err := a.out.Write(i.Content)
			return err
		}
		to := c.To
		if to == "" {
			to = string(i.ID) + "." + strings.TrimPrefix(i.ContentType, "image/")
		}
		if err := download(a, to, c.Force, i.Content); err != nil {
			return err
		}
		a.message("wrote %s of %s to %s", count(i.SizeBytes, "byte"), i.ID, a.oneLine(to, 200))
		return nil
	})
}

type imageRm struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Image   string `arg:"" help:"Image: id, unique id prefix, or name."`
	deleteFlags
}

// Run removes an image.
func (c *imageRm) Run(ctx context.Context, a *app) error {
	return c.flags().onSession(ctx, a, c.Session, deletedOutput{}, func(eng Engine, s engine.Session) error {
		i, err := imageNamed(ctx, a, eng, s, c.Image)
		if err != nil {
			return err
		}
		return c.remove(ctx, a, "image", string(i.ID), func() error { return eng.Images().Remove(ctx, s.ID, i.ID) })
	})
}

// attachedImage is an image for a message: one of the session, or one to store with it first.
type attachedImage struct {
	id perdure.ImageID // empty: it is stored first
	engine.ImageWrite
}

// attachedImages reads the values of --image: ids of images, and local files.
func attachedImages(a *app, typed []string) ([]attachedImage, error) {
	var all []attachedImage
	for _, word := range typed {
		if id, err := perdure.ParseID[perdure.ImageID](word); err == nil {
			all = append(all, attachedImage{id: id})
			continue
		}
		w, err := localImage(a, word, "")
		if err != nil {
			return nil, err
		}
		all = append(all, attachedImage{ImageWrite: w})
	}
	return all, nil
}

// imageParts returns the parts of a message that show images, which it stores where necessary.
func imageParts(ctx context.Context, eng Engine, id perdure.SessionID, all []attachedImage) ([]perdure.Part, error) {
	var parts []perdure.Part
	for _, i := range all {
		if i.id != "" {
			if _, err := eng.Images().Get(ctx, id, i.id, false); err != nil {
				return nil, err
			}
		} else {
			made, err := eng.Images().Put(ctx, id, i.ImageWrite)
			if err != nil {
				return nil, imageError(err)
			}
			i.id = made.ID
		}
		parts = append(parts, perdure.Part{Type: perdure.PartImageFile, ImageFile: &perdure.ImageFile{ID: i.id}})
	}
	return parts, nil
}
