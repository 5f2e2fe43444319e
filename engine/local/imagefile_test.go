package local_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
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

// TestImageFiles: a message may name images of its session, and the model receives the images
// themselves. A missing one is replaced by a text, and the turn continues (IM1). The journal has
// the names only.
func TestImageFiles(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse("images", []byte("steps:\n  - text: a dot\n"))
	if err != nil {
		t.Fatal(err)
	}
	asked, st := &listener{Model: script}, memory.New(memory.Config{})
	ports := sessionport.New(sessionport.Config{Store: st})
	eng, err := local.Open(t.Context(), local.Config{Store: st, Model: asked, Tools: tool.NewRegistry(), Ports: local.Ports{Open: ports}, Timing: local.Timing{Drain: -1}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	ended := make(chan error, 1) // one result
	go func() { ended <- eng.Run(ctx) }()
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
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
		_, err := eng.Send(ctx, s.ID, perdure.Message{Role: perdure.RoleUser, Parts: []perdure.Part{bad}})
		if !errors.Is(err, perdure.Invalid) {
			t.Errorf("%+v: got %v", bad.ImageFile, err)
		}
	}
	_, err = eng.Send(ctx, s.ID, perdure.Message{Role: perdure.RoleUser, Parts: parts})
	if err := errors.Join(err, eng.Sessions().WaitIdle(ctx, s.ID)); err != nil {
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

// TestPicturesHaveRoom: of the images that a request names the newest are sent, 20 MB together, and
// none before the first that does not fit (IM1). One that is named twice counts twice.
func TestPicturesHaveRoom(t *testing.T) {
	t.Parallel()
	h := furnish(t, "steps: [{text: seen, repeat: true}]", nil)
	s := h.start(t, tool.SessionRequest{})
	images := sessionport.New(sessionport.Config{Store: h.store})(s.ID, tool.Call{}).Images
	picture := func(bytes int) perdure.Part {
		kept, err := images.Create(t.Context(), tool.ImageWrite{Filename: "dot.png", Data: append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, bytes-8)...)})
		if err != nil {
			t.Fatal(err)
		}
		return perdure.Part{Type: perdure.PartImageFile, ImageFile: &perdure.ImageFile{ID: kept.ID}}
	}
	ask := func(parts ...perdure.Part) (shown []string) { // the bytes of pictures, or the text
		h.asked.requests = nil
		_, err := h.Send(t.Context(), s.ID, perdure.Message{Role: perdure.RoleUser, Parts: parts})
		if err := errors.Join(err, h.Sessions().WaitIdle(t.Context(), s.ID)); err != nil {
			t.Fatal(err)
		}
		for _, m := range h.asked.requests[0].Messages {
			for _, p := range m.Parts {
				if p.Image != nil {
					shown = append(shown, fmt.Sprint(base64.StdEncoding.DecodedLen(len(p.Image.Base64))/1_000_000, " MB"))
				} else if m.Role == perdure.RoleUser {
					shown = append(shown, p.Text)
				}
			}
		}
		return shown
	}
	const gone = "[image unavailable]"

	differ(t, "a little one", ask(picture(9)), []string{"0 MB"})
	differ(t, "with two", ask(picture(6_000_000), perdure.Part{Type: perdure.PartText, Text: "and"}, picture(5_000_000)), []string{"0 MB", "6 MB", "and", "5 MB"})
	twice := picture(7_000_000)
	differ(t, "with another, twice", ask(twice, twice), []string{gone, gone, "and", "5 MB", "7 MB", "7 MB"})
	differ(t, "with as large a one as there may be", ask(picture(20<<20)), []string{gone, gone, "and", gone, gone, gone, "20 MB"})
}
