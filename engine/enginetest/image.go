package enginetest

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// dot is an image.
const dot = "GIF89a dot"

func imagesKept(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: still})
	images := s.eng.Images()
	made, err := images.Put(s.ctx, s.id, engine.ImageWrite{Filename: "dot é.gif", Content: []byte(dot)})
	if err != nil || made.ContentType != "image/gif" || made.SizeBytes != int64(len(dot)) || made.Filename != "dot é.gif" {
		t.Fatalf("put %+v, %v", made, err)
	}
	if again, err := images.Put(s.ctx, s.id, engine.ImageWrite{Filename: "dot é.gif", Content: []byte(dot)}); err != nil || again.ID != made.ID {
		t.Errorf("put again %+v, %v", again, err)
	}
	if all, err := images.List(s.ctx, s.id); err != nil || len(all) != 1 || all[0].ID != made.ID {
		t.Errorf("listed %+v, %v", all, err)
	}
	if bare, err := images.Get(s.ctx, s.id, made.ID, false); err != nil || bare.Content != nil || bare.SizeBytes != made.SizeBytes {
		t.Errorf("described %+v, %v", bare, err)
	}
	if whole, err := images.Get(s.ctx, s.id, made.ID, true); err != nil || string(whole.Content) != dot {
		t.Errorf("read %+v, %v", whole, err)
	}
	if _, err := images.Put(s.ctx, s.id, engine.ImageWrite{Content: []byte("no image")}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("no image: %v", err)
	}
	if _, err := images.Put(s.ctx, "session_019aa0000000700080000000000000fb", engine.ImageWrite{Content: []byte(dot)}); !errors.Is(err, perdure.NotFound) {
		t.Errorf("no session: %v", err)
	}
	if err := images.Remove(s.ctx, s.id, made.ID); err != nil {
		t.Errorf("removed: %v", err)
	}
	if _, err := images.Get(s.ctx, s.id, made.ID, true); !errors.Is(err, perdure.NotFound) {
		t.Errorf("read after it was removed: %v", err)
	}
}

func filesSearched(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: still})
	s.write(engine.FileWrite{Path: "/a/one.txt", Content: []byte("first\nNeedle <&>\n")})
	s.write(engine.FileWrite{Path: "/b.md", Content: []byte("needle")})
	for _, c := range []struct {
		search engine.FileSearch
		want   []engine.FileMatch
	}{
		{engine.FileSearch{Pattern: "needle"}, []engine.FileMatch{{Path: "/b.md", Line: 1, Text: "needle"}}},
		{engine.FileSearch{Pattern: "NEEDLE", IgnoreCase: true, Directory: "/a"}, []engine.FileMatch{{Path: "/a/one.txt", Line: 2, Text: "Needle <&>"}}},
		{engine.FileSearch{Pattern: ".", Glob: "*.txt", Limit: 1}, []engine.FileMatch{{Path: "/a/one.txt", Line: 1, Text: "first"}}},
	} {
		found, err := s.eng.Files().Grep(s.ctx, s.id, c.search)
		if err != nil || len(found.Matches) != len(c.want) || found.Matches[0] != c.want[0] || found.Truncated != (c.search.Limit == 1) {
			t.Errorf("%+v: got %+v, %v", c.search, found, err)
		}
	}
	if _, err := s.eng.Files().Grep(s.ctx, s.id, engine.FileSearch{Pattern: "("}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("a wrong pattern: %v", err)
	}
}

// nothingThere pins what a session without databases and payments answers.
func nothingThere(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: still})
	if all, err := s.eng.Databases().List(s.ctx, s.id); err != nil || len(all) != 0 {
		t.Errorf("databases %+v, %v", all, err)
	}
	_, missing := s.eng.Databases().Query(s.ctx, s.id, engine.DatabaseQuery{SQL: "VALUES (1)"})
	if dump := s.eng.Databases().Dump(s.ctx, s.id, "main", io.Discard); !errors.Is(missing, perdure.NotFound) || !errors.Is(dump, perdure.NotFound) {
		t.Errorf("query %v, dump %v", missing, dump)
	}
	if err := s.eng.Databases().Dump(s.ctx, "session_019aa0000000700080000000000000fb", "main", &bytes.Buffer{}); !errors.Is(err, perdure.NotFound) {
		t.Errorf("no session: %v", err)
	}
	if all, err := s.eng.Payments().List(s.ctx, engine.PaymentFilter{}); err != nil || len(all) != 0 {
		t.Errorf("payments %+v, %v", all, err)
	}
	_, got := s.eng.Payments().Get(s.ctx, "pay_5_1")
	if _, err := s.eng.Payments().Resolve(s.ctx, "pay_5_1", engine.PaymentResolution{Happened: true, By: "user"}); !errors.Is(err, perdure.NotFound) || !errors.Is(got, perdure.NotFound) {
		t.Errorf("get %v, resolve %v", got, err)
	}
}
