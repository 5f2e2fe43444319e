// Package ledger holds the tools of docs/how-to/write-a-tool.md.
//
// It may import anything. The one thing to know: a test checks that the code on that page equals
// this file.
package ledger

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

type searchIn struct {
	Word  string `json:"word" minLength:"1" jsonschema:"What to look for."`
	Limit int    `json:"limit,omitempty" min:"1" max:"50" default:"10" jsonschema:"How many paths to return."`
}

type searchOut struct {
	Paths []string `json:"paths"`
}

// SearchNotes returns the tool that finds notes by a word.
func SearchNotes() tool.Tool {
	return tool.New(tool.Spec{
		Name:        "search_notes",
		DisplayName: "Search Notes",
		Description: "Finds the notes that contain a word.",
		Class:       perdure.Pure,
	}, searchNotes)
}

func searchNotes(ctx context.Context, in searchIn, env tool.Env) (searchOut, error) {
	if env.Files == nil {
		return searchOut{}, tool.Errorf("%s", tool.Missing("Session file store", "search_notes requires the files of a session.").Text)
	}
	files, err := env.Files.List(ctx, "/", true)
	if err != nil {
		return searchOut{}, err
	}
	out := searchOut{Paths: []string{}}
	for _, stat := range files {
		if stat.IsDirectory || len(out.Paths) == in.Limit {
			continue
		}
		file, err := env.Files.Read(ctx, stat.Path)
		if err != nil {
			return searchOut{}, err
		}
		if strings.Contains(string(file.Content), in.Word) {
			out.Paths = append(out.Paths, stat.Path)
		}
	}
	if len(out.Paths) == 0 {
		return searchOut{}, tool.Errorf("No note contains the word %q. Try a shorter word.", in.Word)
	}
	return out, nil
}

type reindexIn struct {
	Folder string `json:"folder" default:"/" jsonschema:"Folder to read."`
}

type reindexOut struct {
	Notes int `json:"notes"`
}

// Reindex returns the tool that reads all notes again. Running it twice has the effect of running
// it once.
func Reindex() tool.Background {
	return tool.NewBackground(tool.Spec{
		Name:        "reindex_notes",
		Description: "Reads all notes again. Takes a while: start it in the background.",
		Class:       perdure.Idempotent,
		Narration: tool.Narration{
			Started:   "Reading the notes below {folder}",
			Completed: "Read the notes below {folder}[: {result.notes} found]",
			Failed:    "Could not read the notes below {folder}", // the error is added
		},
	}, func(ctx context.Context, in reindexIn, env tool.Env) (reindexOut, error) {
		if env.Files == nil {
			return reindexOut{}, tool.Errorf("%s", tool.Missing("Session file store", "reindex_notes requires the files of a session.").Text)
		}
		files, err := env.Files.List(ctx, in.Folder, true)
		if err != nil {
			return reindexOut{}, err
		}
		for i, file := range files {
			if ctx.Err() != nil {
				return reindexOut{}, context.Cause(ctx)
			}
			done, all := float64(i+1), float64(len(files))
			tool.ReportProgress(env.Sink, perdure.Progress{Current: &done, Total: &all, Unit: "notes", Label: file.Name})
			env.Sink.Output("stdout", fmt.Appendln(nil, file.Path))
		}
		return reindexOut{Notes: len(files)}, nil
	})
}

const signatures = "/signatures"

// SignNotes returns the tool that signs all notes with the session's secret signing_key.
// Signing twice has the effect of signing once.
func SignNotes() tool.Background {
	secrets := true
	return tool.NewBackground(tool.Spec{
		Name:        "sign_notes",
		Description: "Signs all notes with the secret signing_key and writes the signatures to " + signatures + ". Takes a while: start it in the background.",
		Class:       perdure.Idempotent,
		Hints:       tool.Hints{RequiresSecrets: &secrets},
	}, signNotes)
}

func signNotes(ctx context.Context, in reindexIn, env tool.Env) (reindexOut, error) {
	if env.Files == nil || env.Secrets == nil {
		return reindexOut{}, tool.Errorf("%s", tool.Missing("Session storage store", "sign_notes requires the files and secrets of a session.").Text)
	}
	key, err := env.Secrets.Reveal(ctx, "signing_key")
	if errors.Is(err, perdure.NotFound) {
		return reindexOut{}, tool.Errorf("There is no secret signing_key. Store one with secret_store first.")
	}
	if err != nil {
		return reindexOut{}, err
	}
	notes, err := env.Files.List(ctx, in.Folder, true)
	if err != nil {
		return reindexOut{}, err
	}
	var signed strings.Builder
	for i, note := range notes {
		env.Sink.Progress(float64(i), float64(len(notes)), note.Name)
		if note.IsDirectory || note.Path == signatures {
			continue
		}
		file, err := env.Files.Read(ctx, note.Path)
		if err != nil {
			return reindexOut{}, err
		}
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write(file.Content)
		fmt.Fprintf(&signed, "%x %s\n", mac.Sum(nil), note.Path)
	}
	_, err = env.Files.Write(ctx, tool.FileWrite{Path: signatures, Content: []byte(signed.String())})
	if err == nil && env.Events != nil { // an event of the type x.sign_notes.signed
		err = env.Events.Emit(ctx, "signed", map[string]int{"notes": len(notes)})
	}
	return reindexOut{Notes: len(notes)}, err
}

// Payments is the payment service: it has the payments that were made, by key.
type Payments struct {
	mu   sync.Mutex
	made map[string]int // cents; guarded by mu
}

type payIn struct {
	Cents int `json:"cents" min:"1"`
}

type payOut struct {
	Receipt string `json:"receipt"`
}

// pay is a tool that can find out whether a payment was made.
type pay struct {
	tool.Tool
	payments *Payments
}

var _ tool.Reconciler = pay{}

// Pay returns the tool.
func Pay(to *Payments) tool.Tool {
	spec := tool.Spec{Name: "pay", Description: "Pays an amount.", Class: perdure.AtMostOnce}
	return pay{payments: to, Tool: tool.New(spec, func(_ context.Context, in payIn, env tool.Env) (payOut, error) {
		to.mu.Lock()
		defer to.mu.Unlock()
		if to.made == nil {
			to.made = map[string]int{}
		}
		to.made[env.Call.Key] = in.Cents
		return payOut{Receipt: "paid under " + env.Call.Key}, nil
	})}
}

// Reconcile implements tool.Reconciler: it looks for the payment.
func (p pay) Reconcile(_ context.Context, call tool.Call, _ tool.Env) (tool.Reconciled, error) {
	p.payments.mu.Lock()
	defer p.payments.mu.Unlock()
	if _, there := p.payments.made[call.Key]; there {
		return tool.Reconciled{Happened: true, Result: tool.Success(payOut{Receipt: "paid under " + call.Key})}, nil
	}
	return tool.Reconciled{DidNotHappen: true}, nil
}

type bookIn struct {
	Note string `json:"note"`
}

// Book returns the tool that books a note with an external service.
func Book(url string) tool.Tool {
	spec := tool.Spec{Name: "book", Description: "Books a note.", Class: perdure.Idempotent}
	return tool.New(spec, func(ctx context.Context, in bookIn, env tool.Env) (tool.Result, error) {
		if env.Egress == nil {
			return tool.Missing("Egress service", "book requires network access."), nil
		}
		resp, err := env.Egress.Do(ctx, perdure.WebRequest{
			Method: http.MethodPost, URL: url, Body: []byte(in.Note), Kind: perdure.EgressIntegration, List: env.Network,
			Header: map[string][]string{"Idempotency-Key": {env.Call.Key}},
		})
		switch {
		case err != nil:
			return tool.Result{}, err
		case resp.Status >= http.StatusBadRequest:
			return tool.Failf("The service answered %d. Nothing was booked.", resp.Status), nil
		}
		return tool.Success(map[string]bool{"booked": true}), nil
	})
}
