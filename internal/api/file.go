package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// filesPath is the path of a file, as the router has it.
const filesPath = "/v1/sessions/{id}/files/{path...}"

// OfFile is the path of a file.
type OfFile struct {
	OfSession
	Path string `path:"path" example:"notes/today.md" doc:"The file: its path without the first slash."`
}

// name is the path as the session knows it.
func (f OfFile) name() string { return "/" + f.Path }

type oneFile struct{ Body engine.File }

func (a *API) fileOperations() {
	missing := []int{http.StatusNotFound}
	bytesOf := map[string]*huma.MediaType{formBytes: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	read(a, operation{
		id: "list-files", path: "/v1/sessions/{id}/files", policy: reads, summary: "List a directory of a session's files, by path", errors: missing,
	}, a.listFiles)
	read(a, operation{id: "stat-file", path: "/v1/sessions/{id}/files:stat", policy: reads, summary: "Describe a file or a directory", errors: missing},
		func(ctx context.Context, in *struct {
			OfSession
			Path string `query:"path" required:"true" example:"/notes" doc:"From the root of the session's files."`
		}) (*oneFile, error) {
			f, err := a.cfg.Engine.File(ctx, in.ID, in.Path, false)
			return &oneFile{Body: f}, err
		})
	read(a, operation{id: "get-file", path: filesPath, policy: reads, summary: "Read a file: its bytes, as they are", errors: append(missing, http.StatusConflict), forms: bytesOf}, a.getFile)
	writeAs(a, operation{
		id: "write-file", path: filesPath, policy: writes, summary: "Write a file", errors: append(missing, http.StatusPreconditionRequired, http.StatusTooManyRequests),
		route: route{own: true, sent: true},
	}, &huma.RequestBody{Content: bytesOf}, a.writeFile)
	erase(a, operation{
		id: "delete-file", path: filesPath, policy: writes, summary: "Delete a file, or a directory", errors: missing, route: route{own: true},
	}, a.deleteFile)
	write(a, operation{id: "move-file", path: "/v1/sessions/{id}/files:move", policy: writes, summary: "Give a file, or a directory with all below it, another path", errors: missing},
		body[engine.FileMove]{example: engine.FileMove{From: "/notes/today.md", To: "/notes/old.md"}}, a.moveFile)
}

func (a *API) listFiles(ctx context.Context, in *struct {
	OfSession
	Path string `query:"path" doc:"The directory; / when it is not said."`
	Deep bool   `query:"deep" doc:"All below it, too."`
	Paged
}) (*page[engine.File], error) {
	dir := orDefault(in.Path, "/")
	all, err := a.cfg.Engine.Files(ctx, in.ID, dir, in.Deep)
	if err != nil {
		return nil, err
	}
	return sorted(a, in.Paged, ordered[engine.File]{which: "files " + string(in.ID) + " " + dir, all: all, key: func(f engine.File) string { return f.Path }})
}

// getFile answers with the bytes. They are told as nothing but bytes, so that no browser takes them for a page.
func (a *API) getFile(ctx context.Context, in *struct {
	OfFile
	Accept      string `header:"Accept" hidden:"true"`
	IfNoneMatch string `header:"If-None-Match" doc:"The ETag of what you have: 304 if it is that still."`
}) (*streamed, error) {
	if negotiate(in.Accept, formBytes) == "" {
		return nil, notAcceptable(formBytes)
	}
	f, err := a.cfg.Engine.File(ctx, in.ID, in.name(), true)
	if err == nil && f.Directory {
		err = &Problem{Status: http.StatusConflict, Code: "conflict", Title: "Conflict", Detail: "Is a directory: " + f.Path}
	}
	if err != nil {
		return nil, err
	}
	return &streamed{Body: func(c huma.Context) {
		tag := contentTag(f.Content)
		c.SetHeader("ETag", tag)
		if fresh(in.IfNoneMatch, tag) {
			c.SetStatus(http.StatusNotModified)
			return
		}
		c.SetHeader("Content-Type", formBytes)
		c.SetHeader("Content-Disposition", "attachment")
		c.SetHeader("Last-Modified", f.UpdatedAt.UTC().Format(http.TimeFormat))
		c.SetStatus(http.StatusOK)
		_, _ = c.BodyWriter().Write(f.Content) // a client that is gone asks again
	}}, nil
}

// writeFile writes a file. The model writes to the same ones, so that whoever writes over one says what they have seen (428).
func (a *API) writeFile(ctx context.Context, in *struct {
	OfFile
	Conditions
	Overwrite bool `query:"overwrite" doc:"Write over whatever is there, without a condition."`
}) (*oneFile, error) {
	w := engine.FileWrite{Path: in.name(), Content: requestOf(ctx).body, By: requestOf(ctx).actor}
	old, err := a.cfg.Engine.File(ctx, in.ID, w.Path, true)
	there := err == nil && !old.Directory
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return nil, err
	}
	tag := ""
	if there {
		tag = contentTag(old.Content)
	}
	if there && (bytes.Equal(old.Content, w.Content) && requestOf(ctx).again || in.superseded(ctx, old.UpdatedAt)) {
		return &oneFile{Body: bare(old)}, nil
	}
	if err := in.allow(tag); err != nil {
		return nil, err
	}
	switch {
	case in.IfMatch != "":
		w.If = &old.Content
	case in.IfNoneMatch != "" || !there && !in.Overwrite:
		w.New = true
	case !in.Overwrite:
		return nil, &Problem{Status: http.StatusPreconditionRequired, Detail: "there is such a file: send If-Match with the ETag that you read, or ?overwrite=true"}
	}
	made, err := a.cfg.Engine.WriteFile(ctx, in.ID, w)
	if errors.Is(err, perdure.Conflict) && in.given() {
		return nil, a.recheck(ctx, in.OfFile, in.Conditions, err)
	}
	return &oneFile{Body: made}, err
}

// bare is a file without its content.
func bare(f engine.File) engine.File {
	f.Content = nil
	return f
}

// recheck says of a write that was refused whether its condition fails now.
func (a *API) recheck(ctx context.Context, of OfFile, c Conditions, refused error) error {
	now, err := a.cfg.Engine.File(ctx, of.ID, of.name(), true)
	tag := ""
	if err == nil && !now.Directory {
		tag = contentTag(now.Content)
	}
	if failed := c.allow(tag); failed != nil {
		return failed
	}
	return refused
}

func (a *API) deleteFile(ctx context.Context, in *struct {
	OfFile
	Conditions
	Recursive bool `query:"recursive" doc:"A directory with all below it."`
}) (*nothing, error) {
	o := engine.FileRemoval{Path: in.name(), Recursive: in.Recursive, By: requestOf(ctx).actor}
	if in.IfMatch != "" {
		old, err := a.cfg.Engine.File(ctx, in.ID, o.Path, true)
		if err == nil && old.Directory {
			err = invalid("header.If-Match", "a directory has no ETag")
		}
		if err == nil {
			err = in.allow(contentTag(old.Content))
		}
		if err != nil {
			return gone(ctx, err)
		}
		o.If = &old.Content
	}
	err := a.cfg.Engine.RemoveFile(ctx, in.ID, o)
	if errors.Is(err, perdure.Conflict) && in.given() {
		err = a.recheck(ctx, in.OfFile, in.Conditions, err)
	}
	return gone(ctx, err)
}

// gone takes what is not there for what was removed before, when that was begun under the same key.
func gone(ctx context.Context, err error) (*nothing, error) {
	if errors.Is(err, perdure.NotFound) && requestOf(ctx).again {
		err = nil
	}
	return &nothing{}, err
}

// moveFile moves. A request with an idempotency key that was begun before, and finds nothing in the old place and something in
// the new one, answers with that.
func (a *API) moveFile(ctx context.Context, in *OfSession, m engine.FileMove) (*oneFile, error) {
	for field, path := range map[string]string{"/from": m.From, "/to": m.To} {
		if !strings.HasPrefix(path, "/") {
			return nil, invalid(field, "an absolute path, such as /notes/today.md")
		}
	}
	m.By = requestOf(ctx).actor
	moved, err := a.cfg.Engine.MoveFile(ctx, in.ID, m)
	if err != nil && requestOf(ctx).again {
		if _, left := a.cfg.Engine.File(ctx, in.ID, m.From, false); errors.Is(left, perdure.NotFound) {
			if there, lookErr := a.cfg.Engine.File(ctx, in.ID, m.To, false); lookErr == nil {
				return &oneFile{Body: there}, nil
			}
		}
	}
	return &oneFile{Body: moved}, err
}
