"""How questions are put, and the fixed sentences of the answers."""

# In a template ^+, ^- and ^* stand for an operator, with or without spaces around it.
SIGNS = {"^+": ["+"], "^-": ["-"], "^*": ["*", "x", "*"]}

BEFORE = ["Hi, ", "Hello! ", "Please tell me: ", "Can you help me? ", "I have a question. ", "Quick question: ",
          "My homework says: ", "Hey, ", "Question: "]
AFTER = [" Thanks!", " Please.", " Thank you.", " I need it today."]

ADD = ["What is {a}^+{b}?", "What is {a}^+{b}?", "{a}^+{b}", "{a}^+{b}=?", "Calculate {a}^+{b}.", "How much is {a}^+{b}?",
       "Add {a} and {b}.", "What is {a} plus {b}?", "{a} plus {b}?", "What is the sum of {a} and {b}?",
       "I need the sum of {a} and {b}.", "Can you tell me what {a}^+{b} is?", "Compute {a} plus {b}.",
       "{name} has {a} {thing} and gets {b} more. How many {thing} does {name} have now?",
       "If I add {a} to {b}, what do I get?", "Add {a} to {b}.", "What do {a} and {b} make together?",
       "I have {a} {thing} and you have {b}. How many do we have together?", "What does {a}^+{b} equal?"]

SUBTRACT_ANY = ["What is {a}^-{b}?", "What is {a}^-{b}?", "{a}^-{b}", "{a}^-{b}=?", "Calculate {a}^-{b}.",
                "How much is {a}^-{b}?", "Subtract {b} from {a}.", "What is {a} minus {b}?", "{a} minus {b}?",
                "Can you tell me what {a}^-{b} is?", "Compute {a} minus {b}.", "What does {a}^-{b} equal?",
                "If I subtract {b} from {a}, what do I get?"]
SUBTRACT = SUBTRACT_ANY + ["Take {b} away from {a}.", "What is the difference of {a} and {b}?",
                           "{name} has {a} {thing} and loses {b}. How many {thing} are left?",
                           "I had {a} {thing} and gave away {b}. How many are left?"]

MULTIPLY = ["What is {a}^*{d}?", "What is {a}^*{d}?", "{a}^*{d}", "{d}^*{a}", "{a}^*{d}=?", "Calculate {a}^*{d}.",
            "How much is {a}^*{d}?", "What is {a} times {d}?", "What is {d} times {a}?", "{a} times {d}?",
            "Multiply {a} by {d}.", "What is the product of {a} and {d}?", "Can you tell me what {a}^*{d} is?",
            "Compute {a} times {d}.", "What does {d}^*{a} equal?",
            "There are {d} boxes with {a} {thing} each. How many {thing} are there?"]

LARGER = ["larger", "bigger", "greater"]
SMALLER = ["smaller", "less", "lower"]
WHICH = ["Which is {how}, {a} or {b}?", "Which number is {how}: {a} or {b}?", "Which is {how}: {a} or {b}?",
         "Compare {a} and {b}: which is {how}?", "What is the {how} number, {a} or {b}?",
         "Tell me the {how} of {a} and {b}.", "Of {a} and {b}, which is {how}?"]
IS_IT = ["Is {a} {how} than {b}?", "Is {a} {how} than {b}?", "Is the number {a} {how} than {b}?",
         "Can you tell me if {a} is {how} than {b}?"]

SORT_UP = ["Sort {list}.", "Sort these numbers: {list}.", "Put {list} in order.", "Sort the numbers {list}.",
           "Order {list} from small to large.", "Sort {list} in ascending order.", "Please sort {list}.",
           "Put these numbers in order: {list}.", "What is {list} in ascending order?", "Sort {list} from smallest to largest."]
SORT_DOWN = ["Sort {list} in descending order.", "Order {list} from large to small.",
             "Sort these numbers from largest to smallest: {list}.", "Put {list} in descending order.",
             "Sort {list} from largest to smallest.", "What is {list} in descending order?"]

COUNT = ["How many {c}'s are in {w}?", "How many {c} are in {w}?", "How many times does {c} occur in {w}?",
         "Count the letter {c} in {w}.", "How many letters {c} are in the word {w}?", "How often is {c} in {w}?",
         "How many times does the letter {c} appear in the word {w}?", "Count the {c}'s in {w}.",
         "How many {c}'s does {w} have?"]
LENGTH = ["How many letters are in {w}?", "How many letters does {w} have?", "Count the letters in {w}.",
          "How long is the word {w}?"]
REVERSE = ["Reverse the word {w}.", "Reverse {w}.", "Write {w} backwards.", "What is {w} spelled backwards?",
           "Spell {w} in reverse.", "Can you reverse the word {w}?", "What is the reverse of {w}?", "Spell {w} backwards.",
           "Turn the word {w} around."]
LAST_ONE = ["What is the last letter of {w}?", "What is the last letter in the word {w}?", "Tell me the last letter of {w}.",
            "Which letter does {w} end with?"]
LAST_MANY = ["What are the last letters of {w}?", "Take the last letters of {w} and join them.",
             "Join the last letters of the words {w}.", "Take the last letter of each word in {w} and put them together.",
             "What do the last letters of {w} spell?"]

THEN_ADD = ["And plus {b}?", "Plus {b}?", "Now add {b}.", "And if I add {b}?", "What is that plus {b}?", "Add {b} to that.",
            "And what is that plus {b}?", "Now plus {b}.", "And {b} more?"]
THEN_SUBTRACT = ["And minus {b}?", "Minus {b}?", "Now subtract {b}.", "And if I subtract {b}?", "What is that minus {b}?",
                 "Subtract {b} from that.", "And what is that minus {b}?", "Now minus {b}.", "And {b} less?"]
THEN_TIMES = ["And times {d}?", "Times {d}?", "Now multiply by {d}.", "And if I multiply it by {d}?", "What is that times {d}?",
              "Multiply that by {d}.", "And what is that times {d}?", "Now times {d}."]

TASKS = (BEFORE + AFTER + ADD + SUBTRACT + MULTIPLY + WHICH + IS_IT + LARGER + SMALLER + SORT_UP + SORT_DOWN + COUNT + LENGTH
         + REVERSE + LAST_ONE + LAST_MANY + THEN_ADD + THEN_SUBTRACT + THEN_TIMES)

ABLE = ("I can add, subtract, multiply by a digit, compare and sort numbers, count letters, reverse words "
        "and find last letters.")
GREETED = "This is a greeting."
THANKED = "This is a thank you."
ASKED_ABOUT = "This is about me."
NOT_KNOWN = "This is not one of my tasks."

# Of the lists below every fifth entry is kept out of training.
GREETINGS = ["Hello!", "Hi!", "Hey!", "Good morning!", "Good evening!", "Hello there!", "Hi there!", "Good day.", "Hello",
             "Hi, how are you?", "How are you?", "How are you today?", "Hey there!", "Nice to meet you!", "Hello, how are you?",
             "Good afternoon!", "Greetings!", "Hi, nice to meet you.", "What's up?", "Howdy!", "Hello again!", "Hey, how are you?",
             "Hi again.", "Good to see you.", "How do you do?", "Hello, my friend.", "Welcome!", "Hi, good morning!", "Hey you!",
             "How is it going?", "Hello, demo!", "Good night!", "Hi, how is it going?", "Nice to see you!", "Hello, who is there?",
             "Hey, good evening.", "Hi, my name is Tom.", "Hello, I am Anna.", "Anybody there?", "Hello, nice to see you."]
THANKS = ["Thank you!", "Thanks!", "Thanks a lot.", "Thank you very much.", "Many thanks!", "Great, thank you.", "Thanks for that.",
          "Good, thanks.", "That is right, thank you.", "Thanks, well done.", "Thank you so much!", "OK, thanks.", "Fine, thank you.",
          "Thank you for the answer.", "Thanks, that helps.", "Very good, thank you.", "Well, thanks."]
ABOUT = ["Who are you?", "What can you do?", "What are you?", "What is your name?", "How can you help me?", "Help",
         "What do you know?", "Tell me about yourself.", "Who made you?", "Are you a robot?", "What are you able to do?",
         "Can you help me?", "What is this?", "What tasks can you do?", "How do you work?", "Are you a language model?",
         "What should I ask you?", "Which questions can you answer?", "Introduce yourself.", "Do you have a name?",
         "Which tasks do you know?", "What can I ask?", "What can I ask you?", "Which questions can I ask?", "Are you human?",
         "What kind of model are you?", "Tell me what you can do.", "What are your tasks?", "Are you a small model?",
         "Show me what you can do.", "What do you do?", "Who built you?", "What questions do you answer?", "Describe yourself.",
         "Are you a computer?", "What are you good at?", "How big are you?", "What is your job?", "Say who you are.",
         "Can you do anything?", "Which tasks can you do?", "Do you know who you are?", "Explain what you can do.",
         "Help me.", "I need help."]
UNKNOWN = ["Tell me a joke.", "What is the capital of France?", "Who wrote Hamlet?", "How is the weather today?",
           "Write a poem about the {w}.", "What time is it?", "What is love?", "Who is the president?", "Sing a song.",
           "Translate {w} into French.", "What is a {w}?", "Tell me about the {w}.", "How do I cook {w}?", "Why is the sky blue?",
           "Can you write code?", "Write a program in Python.", "What is the meaning of life?", "Where is {name}?",
           "Do you like {w}?", "When was the war?", "Explain gravity.", "What is the color of the {w}?", "How old are you?",
           "Recommend a book.", "Who won the game?", "What day is it?", "How far is the moon?", "Play some music.",
           "I am bored.", "I feel sad.", "The {w} is nice.", "{name} likes the {w}.", "Do you know {name}?",
           "What is the best {w}?", "How can I learn English?", "Give me advice.", "What happened in {w}?", "{w}",
           "Is it going to rain?", "Tell me a story about a {w}.", "Draw a {w}.", "Bye!", "Is God real?",
           "What does {w} mean?", "How do plants grow?", "Find a hotel.", "What should I eat?", "Where do I buy a {w}?",
           "Describe the {w}.", "Why?", "What now?", "Who invented the {w}?", "How much does a {w} cost?", "Summarize this text.",
           "What is the square root of two?", "Solve the equation.", "Spell check this.", "What rhymes with {w}?",
           "Is {w} a verb?", "What is the plural of {w}?", "Are {w} and {w} the same?", "Prove it.", "Make me laugh.",
           "Name a {w}.", "What is in the {w}?", "Who is {name}?", "What is the opposite of {w}?", "Write an essay on {w}.",
           "How do you say {w} in German?", "What is {w} in Spanish?", "Where does {name} live?", "What is your favorite {w}?",
           "When is the {w}?", "When did the {w} begin?", "What is the price of {w}?", "Is the {w} bigger than the {w}?",
           "Which is better, {w} or {w}?", "Tell me the news.", "What is the time?", "What is the date today?", "How tall is {name}?",
           "Why is the {w} so {w}?", "{w} {w}", "{w} {w} {w}", "What?", "How?", "Really?", "Yes.", "No.", "OK.", "I do not know.",
           "That is wrong.", "You are wrong.", "Are you sure?", "Try again.", "Stop.", "Go on.", "Tell me more.", "{name}!",
           "What is the {w} of the {w}?", "Does the {w} have a {w}?", "How many people live in {w}?", "How many {w} are there?",
           "How many days are in a year?", "How heavy is a {w}?", "How long does the {w} last?", "How long is a day?",
           "What is the largest {w}?", "What is the smallest {w}?", "What is the last {w}?", "What is the first letter?",
           "What is the sum of all {w}?", "I have a {w}.", "There is a {w} in my {w}.", "My {w} is {w}.", "You are {w}.",
           "This is a {w}.", "{name} and {name} are friends.", "{name} has a {w}.", "What is wrong with {name}?", "Good bye.",
           "See you later!", "Do you speak English?", "Can you see me?", "I love you.", "Who am I?", "Where am I?",
           "Where is the {w}?", "Who has the {w}?", "What is that?", "What is it?", "Is it a {w}?", "Is that true?"]
# With a verb and what it is about.
TALK = ["{do} {it}.", "Please {do} {it}.", "Can you {do} {it}?", "How do I {do} {it}?", "Do you {do} {it}?", "Should I {do} {it}?",
        "I want to {do} {it}.", "I {do} {it}.", "Let us {do} {it}.", "Why do people {do} {it}?", "{name} wants to {do} {it}.",
        "When can I {do} {it}?", "Who can {do} {it}?", "Where can I {do} {it}?", "What happens if I {do} {it}?",
        "Could you {do} {it}?", "Never {do} {it}.", "Is it good to {do} {it}?", "Help me {do} {it}.", "Do not {do} {it}.",
        "Why should I {do} {it}?", "What if we {do} {it}?", "{name} and I {do} {it}.", "I cannot {do} {it}.", "Will you {do} {it}?",
        "Which {w} can {do} {it}?", "How often do you {do} {it}?", "Tell me how to {do} {it}.", "{do} {it} now!", "{do} {it} for me.",
        "I need to {do} {it}.", "What is the best way to {do} {it}?", "You must {do} {it}.", "Can {name} {do} {it}?", "Did you {do} {it}?"]
DO = ["sing", "draw", "paint", "explain", "fix", "prove", "describe", "buy", "sell", "bring", "send", "show", "give", "find", "make",
      "build", "cook", "bake", "clean", "wash", "open", "close", "start", "stop", "play", "read", "study", "teach", "learn", "love",
      "hate", "ignore", "forget", "check", "test", "save", "delete", "print", "copy", "move", "push", "pull", "drive", "visit", "call",
      "invite", "follow", "watch", "hear", "taste", "smell", "touch", "break", "repair", "choose", "predict", "imagine", "guess",
      "believe", "translate", "summarize", "write", "tell", "say", "solve", "plan", "eat", "drink", "carry", "catch", "throw", "hide",
      "use", "need", "like", "see", "know", "understand", "improve", "design", "discuss", "review", "remove", "replace", "search"]
IT = ["it", "this", "that", "them", "me", "{name}", "the {w}", "a {w}", "my {w}", "{w}", "your {w}", "me a {w}", "the {w} and the {w}",
      "something", "everything", "the {w} of {name}", "this {w}", "all", "these numbers", "the word", "the letters", "two {w}"]
TOO_HARD = ["What is {a} divided by {b}?", "{a}/{b}", "What is {a}/{b}?", "What is {huge}^+{a}?", "What is {huge}^-{b}?",
            "{huge}^+{huge}", "What is {a} plus {huge}?", "Divide {a} by {b}.", "What is the square root of {a}?",
            "Is {a} a prime number?", "What is {a}%{b}?", "How many words are in {w}?", "What is {a} to the power of {b}?",
            "Is {a} even?", "What is half of {a}?", "Calculate {a}/{b}.", "How much is {a} divided by {b}?", "What is {huge}^*{b}?"]
