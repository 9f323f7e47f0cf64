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

ABLE = ("I can add, subtract, multiply by a digit, compare and sort numbers, count letters, reverse words "
        "and find last letters.")
GREETED = "This is a greeting."
ASKED_ABOUT = "This is about me."
NOT_KNOWN = "This is not one of my tasks."

GREETINGS = ["Hello!", "Hi!", "Hey!", "Good morning!", "Good evening!", "Hello there!", "Hi there!", "Good day.", "Hello",
             "Hi, how are you?", "How are you?", "How are you today?", "Hey there!", "Nice to meet you!", "Hello, how are you?",
             "Good afternoon!", "Greetings!", "Hi, nice to meet you.", "What's up?", "Howdy!"]
ABOUT = ["Who are you?", "What can you do?", "What are you?", "What is your name?", "How can you help me?", "Help",
         "What do you know?", "Tell me about yourself.", "Who made you?", "Are you a robot?", "What are you able to do?",
         "Can you help me?", "What is this?", "What tasks can you do?", "How do you work?", "Are you a language model?",
         "What should I ask you?", "Which questions can you answer?", "Introduce yourself.", "Do you have a name?"]
UNKNOWN = ["Tell me a joke.", "What is the capital of France?", "Who wrote Hamlet?", "How is the weather today?",
           "Write a poem about the {w}.", "What time is it?", "What is love?", "Who is the president?", "Sing a song.",
           "Translate {w} into French.", "What is a {w}?", "Tell me about the {w}.", "How do I cook {w}?", "Why is the sky blue?",
           "Can you write code?", "Write a program in Python.", "What is the meaning of life?", "Where is {name}?",
           "Do you like {w}?", "When was the war?", "Explain gravity.", "What is the color of the {w}?", "How old are you?",
           "Recommend a book.", "Who won the game?", "What day is it?", "How far is the moon?", "Play some music.",
           "I am bored.", "I feel sad.", "The {w} is nice.", "{name} likes the {w}.", "Do you know {name}?",
           "What is the best {w}?", "How can I learn English?", "Give me advice.", "What happened in {w}?", "{w}",
           "Is it going to rain?", "Tell me a story about a {w}.", "Draw a {w}.", "Thank you!", "Bye!", "Is God real?",
           "What does {w} mean?", "How do plants grow?", "Find a hotel.", "What should I eat?", "Where do I buy a {w}?",
           "Describe the {w}.", "Why?", "What now?", "Who invented the {w}?", "How much does a {w} cost?", "Summarize this text.",
           "What is the square root of two?", "Solve the equation.", "Spell check this.", "What rhymes with {w}?",
           "Is {w} a verb?", "What is the plural of {w}?", "Are {w} and {w} the same?", "Prove it.", "Make me laugh."]
TOO_HARD = ["What is {a} divided by {b}?", "{a}/{b}", "What is {a}/{b}?", "What is {a}^*{b}?", "{a}^*{b}", "What is {a} times {b}?",
            "What is {huge}^+{a}?", "What is {huge}^-{b}?", "Divide {a} by {b}.", "What is the square root of {a}?",
            "Is {a} a prime number?", "Multiply {a} by {b}.", "What is {a}%{b}?", "How many words are in {w}?"]
