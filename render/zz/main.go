package main
import ("fmt";"time";"strings"
"github.com/yuin/goldmark/parser";"github.com/yuin/goldmark/text";"github.com/yuin/goldmark/util";"github.com/yuin/goldmark/extension")
func main(){
 p:=parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...),parser.WithInlineParsers(parser.DefaultInlineParsers()...),parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
 parser.WithInlineParsers(util.Prioritized(extension.NewStrikethroughParser(),500),util.Prioritized(extension.NewTaskCheckBoxParser(),0),util.Prioritized(extension.NewLinkifyParser(),999)),
 parser.WithParagraphTransformers(util.Prioritized(extension.NewTableParagraphTransformer(),200)),parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(),0)))
 c:=map[string]func(n int)string{}
 for _,u:=range []string{"[","]","![","[a](","[a]","*a ","**a","_a ","*","_a*b ","`","` ","`a``b ","<","<a ","<!--","<a href=\"","<!--a","&","&a","\\",">","> ","- ","1. ","#","# ","|","|a|\n","|-|\n","a|b\n-|-\n","~","~~a ","~~a","http://a","www.a ","a@b.c ","a@"," a@b","((","[a](b","[a]:b\n","[a]: <b\n","[x]\n","-\n","  - a\n","> - a\n",">\n","```\n","~~~\n    ","    a\n","\t","a\n===\n","<div>\n","<?","<![CDATA[","]]>","\"","[^1]","[ ] ","- [ ] ","www.","http://","a.a.","a:","[[]]","[]()","*_","**_ ","![[](","<a<b","\n","\\\n","  \n","&#x","a*","a_","a**b","[*","[`","x ","&amp;","a  \n"} {u:=u;c[u]=func(n int)string{return strings.Repeat(u,n/len(u))}}
 c["nestlist"]=func(n int)string{var b strings.Builder;for i:=0;b.Len()<n;i++{b.WriteString(strings.Repeat(" ",2*i)+"- a\n")};return b.String()}
 c["backticks"]=func(n int)string{var b strings.Builder;for i:=1;b.Len()<n;i++{b.WriteString("e"+strings.Repeat("`",i))};return b.String()}
 c["quotelines"]=func(n int)string{var b strings.Builder;k:=1;for k*k<n{k++};for i:=0;i<k;i++{b.WriteString(strings.Repeat(">",k)+"a\n")};return b.String()}
 c["brackets2"]=func(n int)string{return strings.Repeat("[",n/2)+strings.Repeat("]",n/2)}
 c["paren2"]=func(n int)string{return "[a]("+strings.Repeat("(",n/2)+strings.Repeat(")",n/2)}
 c["tablewide"]=func(n int)string{return strings.Repeat("|a",n/6)+"|\n"+strings.Repeat("|-",n/6)+"|\n"+strings.Repeat("|\n",n/6)}
 c["refs"]=func(n int)string{var b strings.Builder;for i:=0;b.Len()<n;i++{fmt.Fprintf(&b,"[a%d]: b\n",i)};return b.String()}
 c["refuse"]=func(n int)string{return "[a]: "+strings.Repeat("x",n/2)+"\n\n"+strings.Repeat("[a]",n/6)}
 c["emphs"]=func(n int)string{return strings.Repeat("*",n/2)+"a"+strings.Repeat("*",n/2)}
 c["star_"]=func(n int)string{return strings.Repeat("*a_ ",n/4)}
 c["linklabel"]=func(n int)string{return strings.Repeat("[a",n/4)+strings.Repeat("](b)",n/8)}
 for k,f:=range c{
  var d [2]time.Duration
  for i,n:=range []int{8000,16000}{ s:=[]byte(f(n));t:=time.Now();p.Parse(text.NewReader(s));d[i]=time.Since(t)}
  if d[1]>8*time.Millisecond {fmt.Printf("%q %v %v\n",k,d[0],d[1])}
 }
 s:=[]byte(strings.Repeat("Some *text* with `code` and a [link](http://a.b/c) and more words to read.\n\n- item\n- item two\n\n```go\nfunc main() {\n\tfmt.Println()\n}\n```\n\n",20000))
 t:=time.Now();p.Parse(text.NewReader(s));fmt.Println("speed MB/s",float64(len(s))/1e6/time.Since(t).Seconds())
}
