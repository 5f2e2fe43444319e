// Images is a program that shows its agent pictures: one that the user uploads with a message, and
// one that a tool draws. The bytes are stored once with the session; the journal has references.
//
//	go run ./examples/images
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"iter"
	"os"
	"os/signal"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

type drawIn struct {
	Values []int `json:"values" jsonschema:"The heights of the bars, in pixels."`
}

// drawChart returns the tool that draws a chart. Its result has the picture in base64; the runtime
// stores the picture with the session, and keeps the reference.
func drawChart() tool.Tool {
	spec := tool.Spec{Name: "draw_chart", Description: "Draws a bar chart.", Class: perdure.Pure}
	return tool.New(spec, func(_ context.Context, in drawIn, _ tool.Env) (tool.Result, error) {
		picture, err := chart(in.Values)
		if err != nil {
			return tool.Result{}, err
		}
		shown := perdure.Image{MediaType: "image/png", Base64: base64.StdEncoding.EncodeToString(picture)}
		return tool.Success(map[string]int{"bars": len(in.Values)}).WithImages(shown), nil
	})
}

// chart draws bars, and returns them as PNG.
func chart(values []int) ([]byte, error) {
	const width, height = 10, 30 // of a bar
	canvas := image.NewGray(image.Rect(0, 0, max(1, len(values))*width, height))
	for i, value := range values {
		for x := range width - 2 {
			for y := range min(max(value, 0), height) {
				canvas.SetGray(i*width+x, height-1-y, color.Gray{Y: 255})
			}
		}
	}
	var out bytes.Buffer
	err := png.Encode(&out, canvas)
	return out.Bytes(), err
}

// viewer is a model that says how many pictures it is shown. It answers from a script; a real one
// looks at them.
type viewer struct {
	model.Model
	out io.Writer
}

// Stream implements model.Model.
func (v viewer) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	shown := 0
	for _, message := range req.Messages {
		for _, part := range message.Parts {
			if part.Image != nil && part.Image.Base64 != "" {
				shown++
			}
			if part.Result == nil {
				continue
			}
			for _, picture := range part.Result.Images {
				if picture.Base64 != "" {
					shown++
				}
			}
		}
	}
	fmt.Fprintf(v.out, "the model is shown %d\n", shown)
	return v.Model.Stream(ctx, req)
}

const script = `
steps:
  - calls: [{name: draw_chart, args: {values: [5, 20, 10]}}]
  - calls: [{name: draw_chart, args: {values: [5, 20, 10]}}]
  - text: I have drawn it twice.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir := "data"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := run(ctx, dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run sends a message with a picture, and prints what the session keeps.
func run(ctx context.Context, dir string, out io.Writer) (err error) {
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	data, err := local.OpenDataDir(ctx, local.DataDirConfig{Dir: dir, Store: st}) // has a place for large images
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	answers, err := scripted.Parse("images", []byte(script))
	if err != nil {
		return err
	}
	eng, err := local.Open(ctx, local.Config{
		Store: st, Model: viewer{answers, out}, Tools: tool.NewRegistry(drawChart()), Storage: data.Storage,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1) // Run's one result
	go func() { ended <- eng.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err != nil {
		return err
	}
	if err := ask(ctx, eng, s.ID); err != nil {
		return err
	}
	return list(ctx, eng, s.ID, out)
}

// ask uploads a picture, and names it in a message.
func ask(ctx context.Context, eng *local.Engine, id perdure.SessionID) error {
	picture, err := chart([]int{30})
	if err != nil {
		return err
	}
	stored, err := eng.Images().Put(ctx, id, engine.ImageWrite{Filename: "photo.png", Content: picture})
	if err != nil {
		return err
	}
	_, err = eng.Send(ctx, id, perdure.Message{Role: perdure.RoleUser, Parts: []perdure.Part{
		{Type: perdure.PartImageFile, ImageFile: &perdure.ImageFile{ID: stored.ID}},
		{Type: perdure.PartText, Text: "Draw the figures of this photo."},
	}})
	if err != nil {
		return err
	}
	return eng.Sessions().WaitIdle(ctx, id)
}

// list prints the pictures of a session, with the sizes that their bytes say.
func list(ctx context.Context, eng *local.Engine, id perdure.SessionID, out io.Writer) error {
	all, err := eng.Images().List(ctx, id)
	if err != nil {
		return err
	}
	for _, one := range all {
		read, err := eng.Images().Get(ctx, id, one.ID, true)
		if err != nil {
			return err
		}
		size, err := png.DecodeConfig(bytes.NewReader(read.Content))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "stored: %s, %d x %d\n", one.ContentType, size.Width, size.Height)
	}
	return nil
}
