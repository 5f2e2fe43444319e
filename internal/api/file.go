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

// filesPath is the router pattern of a file.
const filesPath = "/v1/sessions/{id}/files/{path...}"

// OfFile is the path of a file.
type OfFile struct {
	OfSession
	Path string `path:"path" example:"notes/today.md" doc:"The path of the file, without the leading slash."`
}

// name returns the absolute path within the session's files.
func (f OfFile) name() string { return "/" + f.Path }

func (a fileHandlers) register() {
	missing := []int{http.StatusNotFound}
	bytesOf := map[string]*huma.MediaType{formBytes: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	read(a.API, operation{
		id: "list-files", path: "/v1/sessions/{id}/files", policy: reads, summary: "List a directory of a session's files, ordered by path", errors: missing,
	}, a.listFiles)
	read(a.API, operation{id: "stat-file", path: "/v1/sessions/{id}/files:stat", policy: reads, summary: "Describe a file or a directory", errors: missing},
		func(ctx context.Context, in *struct {
			OfSession
			Path string `query:"path" required:"true" example:"/notes" doc:"The absolute path within the session's files."`
		}) (*single[engine.File], error) {
			return singleOf(a.cfg.Engine.Files().Get(ctx, in.ID, in.Path, false))
		})
	read(a.API, operation{
		id: "grep-files", path: "/v1/sessions/{id}/files:grep", policy: reads, summary: "Search the lines of a session's text files for a regular expression",
		errors: append(missing, http.StatusUnprocessableEntity),
	}, a.grepFiles)
	read(a.API, operation{id: "get-file", path: filesPath, policy: reads, summary: "Read the bytes of a file", errors: append(missing, http.StatusConflict), forms: bytesOf}, a.getFile)
	writeAs(a.API, operation{
		id: "write-file", path: filesPath, policy: writes, summary: "Write a file", errors: append(missing, http.StatusPreconditionRequired, http.StatusTooManyRequests),
		route: route{checksConditions: true, bodyIsResource: true}, maxBody: a.cfg.Limits.File, media: anyMedia,
	}, &huma.RequestBody{Content: bytesOf}, a.writeFile)
	erase(a.API, operation{
		id: "delete-file", path: filesPath, policy: writes, summary: "Delete a file or a directory", errors: missing, route: route{checksConditions: true},
	}, a.deleteFile)
	write(a.API, operation{id: "move-file", path: "/v1/sessions/{id}/files:move", policy: writes, summary: "Move a file, or a directory and everything below it", errors: missing},
		body[engine.FileMove]{example: engine.FileMove{From: "/notes/today.md", To: "/notes/old.md"}}, a.moveFile)
}

func (a fileHandlers) listFiles(ctx context.Context, in *struct {
	OfSession
	Path string `query:"path" doc:"The directory; default /."`
	Deep bool   `query:"deep" doc:"Include everything below the directory."`
	Paged
}) (*page[engine.File], error) {
	dir := orDefault(in.Path, "/")
	all, err := a.cfg.Engine.Files().List(ctx, in.ID, dir, in.Deep)
	if err != nil {
		return nil, err
	}
	return pageOfSorted(a.API, in.Paged, sortedList[engine.File]{name: "files " + string(in.ID) + " " + dir, all: all, key: func(f engine.File) string { return f.Path }})
}

func (a fileHandlers) grepFiles(ctx context.Context, in *struct {
	OfSession
	Pattern    string `query:"pattern" required:"true" minLength:"1" example:"TODO" doc:"A regular expression (RE2), matched against each line."`
	Path       string `query:"path" doc:"The directory to search, with everything below it; default /."`
	Glob       string `query:"glob" doc:"Only files that match, such as **/*.go. Without a slash it is matched against the file name only."`
	IgnoreCase bool   `query:"ignore_case" doc:"Ignore the difference between upper and lower case."`
	Limit      int    `query:"limit" minimum:"1" maximum:"1000" doc:"The maximum number of matches; default 200."`
}) (*single[engine.FileMatches], error) {
	return singleOf(a.cfg.Engine.Files().Grep(ctx, in.ID, engine.FileSearch{Pattern: in.Pattern, Directory: in.Path, Glob: in.Glob,
		IgnoreCase: in.IgnoreCase, Limit: in.Limit}))
}

// getFile answers with the bytes of a file. The media type is always application/octet-stream, so
// that no browser renders the content as a page.
func (a fileHandlers) getFile(ctx context.Context, in *struct {
	OfFile
	Accept      string `header:"Accept" hidden:"true"`
	IfNoneMatch string `header:"If-None-Match" doc:"The ETag of the version that you have. The response is 304 if it is still current."`
}) (*streamed, error) {
	if negotiate(in.Accept, formBytes) == "" {
		return nil, notAcceptable(formBytes)
	}
	f, err := a.cfg.Engine.Files().Get(ctx, in.ID, in.name(), true)
	if err == nil && f.Directory {
		err = &Problem{Status: http.StatusConflict, Code: "conflict", Title: "Conflict", Detail: "Is a directory: " + f.Path}
	}
	if err != nil {
		return nil, err
	}
	return &streamed{Body: func(c huma.Context) {
		tag := contentTag(f.Content)
		c.SetHeader("ETag", tag)
		if notModified(in.IfNoneMatch, tag) {
			c.SetStatus(http.StatusNotModified)
			return
		}
		c.SetHeader("Content-Type", formBytes)
		c.SetHeader("Content-Disposition", "attachment")
		c.SetHeader("Last-Modified", f.UpdatedAt.UTC().Format(http.TimeFormat))
		c.SetStatus(http.StatusOK)
		_, _ = c.BodyWriter().Write(f.Content) // the client may be gone; it can ask again
	}}, nil
}

// writeFile writes a file. Because the model writes the same files, a client that replaces one must
// name the version that it has read, or ask to overwrite (428).
func (a fileHandlers) writeFile(ctx context.Context, in *struct {
	OfFile
	Conditions
	Overwrite bool `query:"overwrite" doc:"Replace an existing file unconditionally."`
}) (*single[engine.File], error) {
	w := engine.FileWrite{Path: in.name(), Content: requestOf(ctx).body, By: requestOf(ctx).actor}
	old, err := a.cfg.Engine.Files().Get(ctx, in.ID, w.Path, true)
	exists := err == nil && !old.Directory
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return nil, err
	}
	tag := ""
	if exists {
		tag = contentTag(old.Content)
	}
	if exists && (bytes.Equal(old.Content, w.Content) && requestOf(ctx).repeated || in.superseded(ctx, old.UpdatedAt)) {
		return &single[engine.File]{withoutContent(old)}, nil
	}
	if err := in.allow(tag); err != nil {
		return nil, err
	}
	switch {
	case in.IfMatch != "":
		w.If = &old.Content
	case in.IfNoneMatch != "" || !exists && !in.Overwrite:
		w.New = true
	case !in.Overwrite:
		return nil, &Problem{Status: http.StatusPreconditionRequired, Detail: "the file already exists; send If-Match with the ETag that you read, or ?overwrite=true"}
	}
	made, err := a.cfg.Engine.Files().Write(ctx, in.ID, w)
	if errors.Is(err, perdure.Conflict) && in.given() {
		return nil, a.recheck(ctx, in.OfFile, in.Conditions, err)
	}
	return &single[engine.File]{made}, err
}

// withoutContent returns a file without its content.
func withoutContent(f engine.File) engine.File {
	f.Content = nil
	return f
}

// recheck is called after a write was refused with a conflict. It returns the 412 if the condition
// fails now, else the refusal.
func (a fileHandlers) recheck(ctx context.Context, of OfFile, c Conditions, refused error) error {
	now, err := a.cfg.Engine.Files().Get(ctx, of.ID, of.name(), true)
	tag := ""
	if err == nil && !now.Directory {
		tag = contentTag(now.Content)
	}
	if failed := c.allow(tag); failed != nil {
		return failed
	}
	return refused
}

func (a fileHandlers) deleteFile(ctx context.Context, in *struct {
	OfFile
	Conditions
	Recursive bool `query:"recursive" doc:"Delete a directory and everything below it."`
}) (*nothing, error) {
	o := engine.FileRemoval{Path: in.name(), Recursive: in.Recursive, By: requestOf(ctx).actor}
	if in.IfMatch != "" {
		old, err := a.cfg.Engine.Files().Get(ctx, in.ID, o.Path, true)
		if err == nil && old.Directory {
			err = invalid("header.If-Match", "a directory has no ETag; omit the header")
		}
		if err == nil {
			err = in.allow(contentTag(old.Content))
		}
		if err != nil {
			return goneIfRepeated(ctx, err)
		}
		o.If = &old.Content
	}
	err := a.cfg.Engine.Files().Remove(ctx, in.ID, o)
	if errors.Is(err, perdure.Conflict) && in.given() {
		err = a.recheck(ctx, in.OfFile, in.Conditions, err)
	}
	return goneIfRepeated(ctx, err)
}

// goneIfRepeated treats NotFound as success if an earlier attempt under the same idempotency key
// was started: that attempt may have removed the resource.
func goneIfRepeated(ctx context.Context, err error) (*nothing, error) {
	if errors.Is(err, perdure.NotFound) && requestOf(ctx).repeated {
		err = nil
	}
	return &nothing{}, err
}

// moveFile moves a file. If a request with an idempotency key was started before, the source is
// gone and the target exists, the response is the target.
func (a fileHandlers) moveFile(ctx context.Context, in *OfSession, m engine.FileMove) (*single[engine.File], error) {
	for field, path := range map[string]string{"/from": m.From, "/to": m.To} {
		if !strings.HasPrefix(path, "/") {
			return nil, invalid(field, "must be an absolute path, such as /notes/today.md")
		}
	}
	m.By = requestOf(ctx).actor
	moved, err := a.cfg.Engine.Files().Move(ctx, in.ID, m)
	if err != nil && requestOf(ctx).repeated {
		if _, left := a.cfg.Engine.Files().Get(ctx, in.ID, m.From, false); errors.Is(left, perdure.NotFound) {
			if target, lookErr := a.cfg.Engine.Files().Get(ctx, in.ID, m.To, false); lookErr == nil {
				return &single[engine.File]{target}, nil
			}
		}
	}
	return &single[engine.File]{moved}, err
}
