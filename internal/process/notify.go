package process

import (
	"net"
	"os"
	"strconv"
	"time"
)

// Notifier reports the state of the process to systemd. Without systemd it does
// nothing.
type Notifier struct {
	socket   string
	watchdog time.Duration // how long systemd waits for a sign of life; 0: no watchdog
	last     time.Time     // when the last sign was sent
}

// NewNotifier reads systemd's environment variables.
func NewNotifier(getenv func(string) string) *Notifier {
	n := &Notifier{socket: getenv("NOTIFY_SOCKET")}
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if pid := getenv("WATCHDOG_PID"); err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(usec) * time.Microsecond
	}
	return n
}

// Ready says that the process is up.
func (n *Notifier) Ready() { n.tell("READY=1") }

// Stopping says that the process is about to end.
func (n *Notifier) Stopping() { n.tell("STOPPING=1") }

// Alive is to be called in each iteration of the main loop: when that hangs,
// systemd misses the sign and restarts the process.
func (n *Notifier) Alive(now time.Time) {
	if n.watchdog > 0 && (now.Sub(n.last) >= n.watchdog/4 || now.Before(n.last)) {
		n.last = now
		n.tell("WATCHDOG=1")
	}
}

// tell sends a line. Errors are ignored: they are not worth ending a process
// for.
func (n *Notifier) tell(state string) {
	if n.socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer c.Close()
	c.Write([]byte(state))
}
