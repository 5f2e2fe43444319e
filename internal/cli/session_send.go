package cli

import (
	"context"
	"strings"

	"github.com/perdure/perdure"
)

type sessionSend struct {
	Session  string   `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Text     string   `arg:"" help:"Text of the message."`
	Metadata []string `help:"Tell tools, hooks and the routing policy something about this request. The model does not read it. Repeatable." placeholder:"KEY=VALUE" sep:"none"`
	Image    []string `help:"Show an image with the message: a local file, which is stored with the session, or the id of one of its images. Repeatable." placeholder:"FILE|ID" sep:"none"`
	Wait     bool     `help:"Wait for the answer, like run."`
	DryRun   bool     `help:"Print what would be done, without doing it."`
	Output   string   `short:"o" help:"With --wait: output format: text, or json with one line per event." placeholder:"FORMAT" enum:"text,json,jsonl" default:"text"`
}

// Run sends a message.
func (c *sessionSend) Run(ctx context.Context, a *app) error {
	message, err := perdure.Text(c.Text), error(nil)
	if message.Metadata, err = metadataOf(c.Metadata); err != nil {
		return err
	}
	if err := message.CheckInput(); err != nil {
		return err
	}
	if c.DryRun {
		return a.read(ctx, func(eng Engine) error {
			s, err := a.session(ctx, eng, c.Session)
			if err == nil {
				a.message("would send %s to %s, which is %s: %s", count(len(c.Text), "byte"), s.ID, s.Status,
					a.oneLine(s.Title, cellChars))
			}
			return err
		})
	}
	run := &runCommand{Prompt: c.Text, Session: c.Session, Output: c.Output, Bg: !c.Wait, Metadata: c.Metadata, Image: c.Image}
	return run.Run(ctx, a)
}

// metadataOf parses the metadata of a message.
func metadataOf(typed []string) (map[string]string, error) {
	var metadata map[string]string
	for _, word := range typed {
		key, value, ok := strings.Cut(word, "=")
		if _, twice := metadata[key]; !ok || key == "" || twice {
			return nil, usageError("not metadata, or a duplicate: "+quote(word), "use --metadata KEY=VALUE, once for each key")
		}
		if metadata == nil {
			metadata = map[string]string{}
		}
		metadata[key] = value
	}
	return metadata, nil
}
