package local_test

import (
	"context"
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// TestImageFiles: a message may name images of its session, and the model is sent the images themselves. One that is not
// there is a text, and the turn goes on (IM1). The journal keeps the names.
func TestImageFiles(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse("images", []byte("steps:\n  - text: a dot\n"))
	if err != nil {
		t.Fatal(err)
	}
	asked, st := &listener{Model: script}, memory.New(memory.Config{})
	ports := sessionport.New(sessionport.Config{Store: st})
	eng, err := local.Open(t.Context(), local.Config{Store: st, Model: asked, Tools: tool.NewRegistry(), Ports: ports, Drain: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	ended := make(chan error, 1) // one result
	go func() { ended <- eng.Run(ctx) }()
	s, err := eng.NewSession(ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	content := []byte("\x89PNG\r\n\x1a\nnot all of it")
	kept, err := ports(s.ID, tool.Call{}).Images.Create(ctx, tool.ImageWrite{Filename: "dot.png", Data: content})
	if err != nil {
		t.Fatal(err)
	}
	file := func(id perdure.ImageID) perdure.Part {
		return perdure.Part{Type: perdure.PartImageFile, ImageFile: &perdure.ImageFile{ID: id}}
	}
	gone := perdure.ImageID("image_00000000000000000000000000000001")
	parts := []perdure.Part{file(kept.ID), {Type: perdure.PartText, Text: "what is this?"}, file(gone), file(kept.ID)}

	for _, bad := range []perdure.Part{{Type: perdure.PartImageFile}, file(""), file("../x"), file("session_00000000000000000000000000000001")} {
		err := eng.Send(ctx, s.ID, perdure.Message{Role: perdure.RoleUser, Parts: []perdure.Part{bad}})
		if !errors.Is(err, perdure.Invalid) {
			t.Errorf("%+v: got %v", bad.ImageFile, err)
		}
	}
	if err := errors.Join(eng.Send(ctx, s.ID, perdure.Message{Role: perdure.RoleUser, Parts: parts}), eng.WaitIdle(ctx, s.ID)); err != nil {
		t.Fatal(err)
	}

	if len(asked.asked) != 1 || len(asked.asked[0].Messages) != 1 {
		t.Fatalf("asked %+v", asked.asked)
	}
	picture := perdure.Part{Type: perdure.PartImage, Image: &perdure.Image{MediaType: "image/png", Base64: base64.StdEncoding.EncodeToString(content)}}
	want := []perdure.Part{picture, parts[1], {Type: perdure.PartText, Text: "[image unavailable]"}, picture}
	if diff := cmp.Diff(want, asked.asked[0].Messages[0].Parts); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	page, err := ports(s.ID, tool.Call{}).Messages.Messages(ctx, 0, 0)
	if err != nil || len(page.Messages) == 0 {
		t.Fatalf("got %v, %v", page, err)
	}
	if diff := cmp.Diff(parts, page.Messages[0].Parts); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}
