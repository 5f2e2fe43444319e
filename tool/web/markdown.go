package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
)

// notMarkdown is shown before the text of a page that could not be converted to Markdown.
const notMarkdown = "[This page could not be converted to Markdown because its markup is too large or too deeply nested. Its plain text follows.]\n\n"

// markdown returns a page as Markdown. If the page exceeds the limits, it returns the plain text
// after a note. The error is ctx's cause.
func (p page) markdown(ctx context.Context) (string, error) {
	// A page that consists of links is shown with its navigation.
	for _, keepNav := range []bool{false, true} {
		text, ok, err := p.convert(ctx, keepNav)
		if err != nil || strings.TrimSpace(text) != "" {
			return text, err
		}
		if !ok {
			return notMarkdown + p.plainText(), nil
		}
	}
	return "", nil
}

// convert runs the converter. ok is false if the page exceeds the limits.
func (p page) convert(ctx context.Context, keepNav bool) (string, bool, error) {
	simple, ok := p.simplify(keepNav)
	if !ok {
		return "", false, nil
	}
	conv := converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(commonmark.WithListEndComment(false)),
		table.NewTablePlugin(
			table.WithHeaderPromotion(true),
			table.WithSkipEmptyRows(true),
			table.WithNewlineBehavior(table.NewlineBehaviorPreserve),
			// With alignment, one long cell would make every row as long.
			table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal),
		),
	))
	conv.Register.UnEscaper(unescapeBracket, converter.PriorityEarly)
	text, err := conv.ConvertReader(stoppable{ctx, strings.NewReader(simple)},
		converter.WithContext(ctx), converter.WithDomain(p.base.String()))
	if ctx.Err() != nil {
		return "", false, context.Cause(ctx)
	}
	if err != nil { // the parser has its own limits
		return "", false, nil
	}
	return string(bytes.TrimSpace(text)), true, nil
}

// stoppable is a reader that fails when its context ends, which stops the parser.
type stoppable struct {
	ctx context.Context
	in  io.Reader
}

// Read reads, or returns the cause if the context has ended.
func (s stoppable) Read(b []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, errors.Join(context.Cause(s.ctx), s.ctx.Err())
	}
	return s.in.Read(b)
}
