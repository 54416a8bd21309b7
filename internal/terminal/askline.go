package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// longestLine is how long a line may be that answers a question.
const longestLine = 4096

// AskLine asks a question and returns the line that answers it, without the space
// around it. Whoever ends ctx, as by Ctrl-C, has answered, too: its cause is the error,
// and the reader ends with the program.
func AskLine(ctx context.Context, in io.Reader, out io.Writer, question string) (string, error) {
	fmt.Fprint(out, question)
	var line string
	var err error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		line, err = bufio.NewReader(io.LimitReader(in, longestLine)).ReadString('\n')
	}()
	select {
	case <-answered:
	case <-ctx.Done():
		fmt.Fprintln(out)
		return "", context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", tidemark.Invalidf("stdin: %w", err)
	}
	return strings.TrimSpace(line), nil
}
